"""The firmware's sources, which are in the repository and in no installed package."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from headtail_fabric.errors import ConfigError

FIRMWARE: Final = Path(__file__).parents[3] / "firmware"


class NoFirmwareError(ConfigError):
    """This needs the firmware's sources, or MicroPython on this machine. Run it in a checkout of
    the repository, with the `dev` extra installed."""


def compiled(architecture: str, folder: Path) -> dict[str, bytes]:
    """The modules as .mpy, by their path on the board. Raises NoFirmwareError."""
    build = FIRMWARE / "build.py"
    if not build.exists():
        raise NoFirmwareError("the firmware's sources are not here")
    maker = runpy.run_path(str(build))
    try:
        maker["compile_modules"](architecture, folder, compiler=maker["find_compiler"]())
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise NoFirmwareError(str(error)) from None
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "headtail_mcu").glob("*.mpy"))
    }


def script(name: str) -> Path:
    """One of `firmware/bench`."""
    return FIRMWARE / "bench" / name


def micropython() -> str:
    """MicroPython of this machine, beside this Python or on the path. Raises NoFirmwareError."""
    beside = shutil.which("micropython", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("micropython")
    if found is None:
        raise NoFirmwareError("no micropython on this machine")
    return found
