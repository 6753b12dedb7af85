"""What each operation of a head costs a board, and whether the board can carry it.

Instructions are those of the viper kernels on a Cortex-M3, counted in the machine code that
mpy-cross makes of them (straight-line inner loops, so counting is exact there) and rounded up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headtail_models.mcu.boards import Board
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.program import Op, OpKind, Program, Role

_DENSE: Final = 13.5
_INPUT_SUM: Final = 6
_DEPTHWISE: Final = 18.5
_REQUANTISE: Final = 130
_ADDITION: Final = 85
_COPY: Final = 25
_COPY_BY_WORDS: Final = 7
_WINDOW_ROW: Final = 55
_MAX_TAP: Final = 24
_AVERAGE_TAP: Final = 19
_POOL_OUTPUT: Final = 85
_PACK: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """`ram_bytes`: what it reads, leaves and works in; `flash_bytes`: its row and parameters."""

    name: str
    kind: OpKind
    shape: str
    macs: int
    instructions: int
    milliseconds: float
    ram_bytes: int
    flash_bytes: int
    wire_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One thing that a board has only so much of."""

    name: str
    need: float
    has: float
    unit: str

    @property
    def over(self) -> float:
        """By how much the need exceeds what there is."""
        return max(0.0, self.need - self.has)

    def __str__(self) -> str:
        return (
            f"{self.name} {self.need:,.0f} {self.unit}, {self.over:,.0f} {self.unit} more than the "
            f"{self.has:,.0f} there are"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A head on a board, operation by operation."""

    board: Board
    ops: tuple[OpCost, ...]
    exit_ops: int
    limits: tuple[Limit, ...]

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.ops)

    @property
    def instructions(self) -> int:
        return sum(op.instructions for op in self.ops)

    @property
    def milliseconds(self) -> float:
        """Estimate for a sample that does not exit."""
        return sum(op.milliseconds for op in self.ops)

    @property
    def exit_milliseconds(self) -> float:
        """Estimate for a sample that does; 0 without an exit."""
        return sum(op.milliseconds for op in self.ops[: self.exit_ops])

    def check(self) -> None:
        """Raises DoesNotFitError, naming every limit and by how much it is passed."""
        passed = [str(limit) for limit in self.limits if limit.over > 0]
        if passed:
            raise DoesNotFitError(f"the head doesn't fit {self.board.name}: {'; '.join(passed)}")


def budget(
    program: Program,
    board: Board,
    *,
    names: Sequence[str] = (),
    max_milliseconds: float | None = None,
) -> Budget:
    """`names` of the operations, where known."""
    wire = {o.offset: o.size for o in program.outputs if o.role is Role.FEATURES}
    last = {op.dst: index for index, op in enumerate(program.ops)}
    costs = []
    for index, op in enumerate(program.ops):
        instructions = round(instructions_of(op))
        costs.append(
            OpCost(
                name=names[index] if index < len(names) else op.kind.name.lower(),
                kind=op.kind,
                shape=str(op.shape),
                macs=op.macs,
                instructions=instructions,
                milliseconds=board.milliseconds(instructions),
                ram_bytes=_ram_bytes(op),
                flash_bytes=64 + op.parameter_bytes,
                wire_bytes=wire.get(op.dst, 0) if last[op.dst] == index else 0,
            )
        )
    size = len(program.blob)
    limits = [
        Limit(name="RAM", need=program.arena + size, has=board.head_bytes, unit="bytes"),
        # Two slots, so that a new head can be written while the old one still serves.
        Limit(name="flash", need=2 * size, has=board.flash_bytes, unit="bytes"),
    ]
    if max_milliseconds is not None:
        total = sum(cost.milliseconds for cost in costs)
        limits.append(Limit(name="time", need=total, has=max_milliseconds, unit="ms"))
    return Budget(
        board=board,
        ops=tuple(costs),
        exit_ops=program.exit.ops if program.exit else 0,
        limits=tuple(limits),
    )


def instructions_of(op: Op) -> float:
    """On a Cortex-M3, an estimate from the kernels' machine code."""
    outputs, pixels = op.shape.size, op.shape.h * op.shape.w
    window = op.kernel[0] * op.kernel[1]
    match op.kind:
        case OpKind.CONVOLUTION:
            gathered = 0 if op.is_direct else op.k
            each_pixel = op.k * _INPUT_SUM + gathered * _COPY
            return outputs * (op.k * _DENSE + _REQUANTISE) + pixels * each_pixel
        case OpKind.DEPTHWISE:
            strip = op.shape.h * op.kernel[0] * (op.shape.w * op.stride[1] + op.kernel[1])
            copied = _COPY if op.source.c % 4 else _COPY_BY_WORDS
            return outputs * (window * _DEPTHWISE + _REQUANTISE) + strip * op.source.c * copied
        case OpKind.ADDITION:
            return outputs * _ADDITION
        case OpKind.MAX_POOL | OpKind.AVERAGE_POOL:
            tap = _MAX_TAP if op.kind is OpKind.MAX_POOL else _AVERAGE_TAP
            return outputs * (window * tap + op.kernel[0] * _WINDOW_ROW + _POOL_OUTPUT)
        case OpKind.PACK:
            return outputs * _PACK


def _ram_bytes(op: Op) -> int:
    spots = {op.src: op.source.size}
    if op.kind is OpKind.ADDITION:
        spots[op.src2] = op.source.size
    spots[op.dst] = max(op.size, spots.get(op.dst, 0))
    return sum(spots.values()) + op.scratch_bytes
