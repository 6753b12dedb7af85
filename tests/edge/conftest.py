"""The specimen bundle, written once."""

from pathlib import Path

import pytest

from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture(scope="session")
def specimen_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real bundle's folder, for reading only."""
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


@pytest.fixture(scope="session")
def specimen(specimen_path: Path) -> Bundle:
    return open_bundle(specimen_path)
