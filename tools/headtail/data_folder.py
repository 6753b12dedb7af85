"""Where the photos and sounds lie that Headtail measures on and does not hold."""

import os
from pathlib import Path
from typing import Final

DATA: Final = "HEADTAIL_DATA"
"""The environment variable that names the folder."""


def data_folder() -> Path | None:
    """The folder that the environment names, or None."""
    folder = os.environ.get(DATA)
    return Path(folder) if folder else None


def in_data(name: str) -> Path | None:
    """A file of that folder, whether or not it is there; None where no folder is named."""
    folder = data_folder()
    return folder / name if folder else None
