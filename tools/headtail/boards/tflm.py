"""What TensorFlow Lite Micro takes for a head, where its package is installed (`tflite-micro`)."""

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_LONGEST_S: Final = 60
_SCRIPT: Final = """
import sys
from tflite_micro import runtime
with open(sys.argv[1], "rb") as file:
    interpreter = runtime.Interpreter.from_bytes(file.read(), arena_size=int(sys.argv[2]))
interpreter.invoke()
interpreter.print_allocations()
"""
_LINE: Final = re.compile(r"Arena allocation (head|tail) (\d+) bytes")
_ENOUGH: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TflmArena:
    """`tensors`: what its planner lays out, as ours does. `structures`: what its interpreter keeps
    for itself beside them, on a 64-bit machine; pointers are half as long on a board."""

    tensors: int
    structures: int


def has_tflm() -> bool:
    return find_spec("tflite_micro") is not None


def tflm_arena(network: bytes) -> TflmArena:
    """Of a .tflite file. In a process of its own: it prints the figures, and nothing else has them.

    Raises RuntimeError where it does not run the network.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "head.tflite"
        path.write_bytes(network)
        done = subprocess.run(  # noqa: S603 - this Python and our own script
            [sys.executable, "-c", _SCRIPT, str(path), str(_ENOUGH)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    sizes = dict(_LINE.findall(done.stdout + done.stderr))
    if done.returncode or sizes.keys() != {"head", "tail"}:
        raise RuntimeError(f"TensorFlow Lite Micro: {done.stdout}{done.stderr}")
    return TflmArena(tensors=int(sizes["head"]), structures=int(sizes["tail"]))
