"""Instructions of heads on the emulated board."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headtail.boards.checkout import script
from headtail.boards.emulated import EmulatedBoard
from headtail_models.mcu.program import Program

_NEEDED: Final = ("__init__", "head", "errors", "extents", "backends", "frontend", "natmod")
_LONGEST_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """`instructions` of each operation by the kernels' name, the fastest kernels first."""

    instructions: Mapping[str, tuple[int, ...]]
    heap_bytes: int

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(self.instructions)


class Counter:
    """A board with the firmware on it; a context manager. Raises BoardError."""

    def __init__(self, firmware: Path, modules: Mapping[str, bytes]) -> None:
        self._board = EmulatedBoard(firmware)
        wanted = {
            name: data
            for name, data in modules.items()
            if (stem := Path(name).stem) in _NEEDED or stem.startswith("kernels_")
        }
        self._board.put(wanted)
        self._script = script("count_ops.py").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._board.__exit__(kind, error, trace)

    def count(self, program: Program) -> Counted:
        """Run the head once with each kernels. Raises BoardError where it does not run."""
        self._board.put({"a.head": program.blob})
        found: dict[str, list[int]] = {}
        heap = 0
        for line in self._board.run(self._script, timeout_s=_LONGEST_S).splitlines():
            what, kernels, *numbers = line.split()
            if what == "op":
                found.setdefault(kernels, []).append(int(numbers[2]))
            elif what == "heap":
                heap = max(heap, int(numbers[0]))
            else:
                raise RuntimeError(f"the emulated board says: {line}")
        instructions = {name: tuple(counts) for name, counts in found.items()}
        return Counted(instructions=instructions, heap_bytes=heap)
