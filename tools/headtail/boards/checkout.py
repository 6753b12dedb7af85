"""The firmware's sources, which are in the repository and in no installed package."""

import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from headtail_fabric.config import cache_home
from headtail_fabric.errors import ConfigError

FIRMWARE: Final = Path(__file__).parents[3] / "firmware"
_PACKAGE: Final = "headtail_mcu"


class NoFirmwareError(ConfigError):
    """This needs the firmware's sources, or MicroPython on this machine. Run it in a checkout of
    the repository, with the `dev` extra installed."""


def find_natmod(architecture: str) -> Path | None:
    """Where `firmware/natmod/build.sh` left its modules, if one is for this processor."""
    folder = cache_home() / "firmware-natmod"
    return folder if (folder / architecture / "natmod.mpy").exists() else None


def compiled(architecture: str, folder: Path, *, natmod: Path | None = None) -> dict[str, bytes]:
    """The modules as .mpy, by their path on the board, with kernels in C where `natmod` has them.

    Raises NoFirmwareError.
    """
    build = FIRMWARE / "build.py"
    if not build.exists():
        raise NoFirmwareError("the firmware's sources are not here")
    maker = runpy.run_path(str(build))
    try:
        compiler = maker["find_compiler"]()
        maker["compile_modules"](architecture, folder, compiler=compiler, natmod=natmod)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise NoFirmwareError(str(error)) from None
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / _PACKAGE).glob("*.mpy"))
    }


def firmware_module(name: str) -> ModuleType:
    """One of the firmware's modules, those without machine code, in this Python.

    Raises NoFirmwareError.
    """
    package = FIRMWARE / _PACKAGE
    if _PACKAGE not in sys.modules:
        spec = spec_from_file_location(
            _PACKAGE, package / "__init__.py", submodule_search_locations=[str(package)]
        )
        if spec is None or spec.loader is None or not package.exists():
            raise NoFirmwareError("the firmware's sources are not here")
        sys.modules[_PACKAGE] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_PACKAGE])
    return import_module(f"{_PACKAGE}.{name}")


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
