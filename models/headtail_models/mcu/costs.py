"""What each operation of a head costs a board, and whether the board can carry it.

Instructions are those of the kernels on a Cortex-M3, fitted to what an emulated one counted
(`headtail bench mcu`); `tests/firmware/test_firmware_emulated.py` holds them to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headtail_models.mcu.boards import Board, LinkKind
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.front_costs import FrontCost, front_cost
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.program import Op, OpKind, Program, Role

_INPUT_SUM: Final = 6
_ADDITION: Final = 85
_COPY: Final = 25
_COPY_BY_WORDS: Final = 2.5
_WINDOW_ROW: Final = 55
_GATHERED_ROW: Final = 140
_MAX_TAP: Final = 24
_AVERAGE_TAP: Final = 19
_POOL_OUTPUT: Final = 85
_PACK: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCosts:
    """Instructions of one kind of kernels: a multiply-add of a convolution, one of a depthwise 3x3,
    one of another depthwise window, an output's requantising, and what a pixel adds."""

    dense: float
    depthwise: float
    depthwise_other: float
    requantise: float
    pixel: float


VIPER: Final = KernelCosts(
    dense=13.1, depthwise=19.4, depthwise_other=30, requantise=138, pixel=450
)
THUMB: Final = KernelCosts(dense=4.1, depthwise=7.2, depthwise_other=30, requantise=66, pixel=700)


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
            f"{self.name} {_said(self.need)} {self.unit}, {_said(self.over)} {self.unit} more than "
            f"the {_said(self.has)} there are"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A head on a board, operation by operation, behind its front end if it has one."""

    board: Board
    front: FrontCost | None
    ops: tuple[OpCost, ...]
    exit_ops: int
    limits: tuple[Limit, ...]

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.ops)

    @property
    def instructions(self) -> int:
        """Of a sample that does not exit, its whole patch included."""
        return self._front_instructions + sum(op.instructions for op in self.ops)

    @property
    def milliseconds(self) -> float:
        """Estimate for a sample that does not exit."""
        return self.board.milliseconds(self.instructions)

    @property
    def front_milliseconds(self) -> float:
        """Estimate for a whole patch; 0 without a front end."""
        return self.board.milliseconds(self._front_instructions)

    @property
    def exit_milliseconds(self) -> float:
        """Estimate for a sample that does exit; 0 without an exit."""
        if not self.exit_ops:
            return 0.0
        early = sum(op.instructions for op in self.ops[: self.exit_ops])
        return self.board.milliseconds(self._front_instructions + early)

    @property
    def _front_instructions(self) -> int:
        return self.front.instructions if self.front is not None else 0

    def check(self) -> None:
        """Raises DoesNotFitError, naming every limit and by how much it is passed."""
        passed = [str(limit) for limit in self.limits if limit.over > 0]
        if passed:
            raise DoesNotFitError(f"the head doesn't fit {self.board.name}: {'; '.join(passed)}")


def budget(
    program: Program,
    board: Board,
    *,
    link: LinkKind = LinkKind.CURVE,
    names: Sequence[str] = (),
    max_milliseconds: float | None = None,
) -> Budget:
    """`names` of the operations, where known."""
    wire = {o.offset: o.size for o in program.outputs if o.role is Role.FEATURES}
    last = {op.dst: index for index, op in enumerate(program.ops)}
    costs = []
    for index, op in enumerate(program.ops):
        instructions = round(instructions_of(op, THUMB if board.has_thumb else VIPER))
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
    front = front_cost(read_front(program.front)) if program.front else None
    spent = Budget(
        board=board,
        front=front,
        ops=tuple(costs),
        exit_ops=program.exit.ops if program.exit else 0,
        limits=(),
    )
    size = len(program.blob)
    ram = program.arena + size + (front.ram_bytes + front.sensor_bytes if front else 0)
    limits = [
        Limit(name=f"RAM beside {link.value}", need=ram, has=board.head_bytes(link), unit="bytes"),
        # Two slots, so that a new head can be written while the old one still serves.
        Limit(name="flash", need=2 * size, has=board.flash_bytes, unit="bytes"),
    ]
    if max_milliseconds is not None:
        limits.append(Limit(name="time", need=spent.milliseconds, has=max_milliseconds, unit="ms"))
    return replace(spent, limits=tuple(limits))


def instructions_of(op: Op, kernels: KernelCosts) -> float:
    """On a Cortex-M3, an estimate."""
    outputs, pixels = op.shape.size, op.shape.h * op.shape.w
    window = op.kernel[0] * op.kernel[1]
    match op.kind:
        case OpKind.CONVOLUTION:
            gathering = 0 if op.is_direct else op.k * _COPY + op.kernel[0] * _GATHERED_ROW
            each_pixel = op.k * _INPUT_SUM + kernels.pixel + gathering
            each_output = op.k * kernels.dense + kernels.requantise
            return outputs * each_output + pixels * each_pixel
        case OpKind.DEPTHWISE:
            strip = op.shape.h * op.kernel[0] * (op.shape.w * op.stride[1] + op.kernel[1])
            copied = _COPY if op.source.c % 4 else _COPY_BY_WORDS
            tap = kernels.depthwise if op.kernel == (3, 3) else kernels.depthwise_other
            each_output = window * tap + kernels.requantise
            return outputs * each_output + strip * op.source.c * copied
        case OpKind.ADDITION:
            return outputs * _ADDITION
        case OpKind.MAX_POOL | OpKind.AVERAGE_POOL:
            tap = _MAX_TAP if op.kind is OpKind.MAX_POOL else _AVERAGE_TAP
            return outputs * (window * tap + op.kernel[0] * _WINDOW_ROW + _POOL_OUTPUT)
        case OpKind.PACK:
            return outputs * _PACK


def _said(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.3g}"


def _ram_bytes(op: Op) -> int:
    spots = {op.src: op.source.size}
    if op.kind is OpKind.ADDITION:
        spots[op.src2] = op.source.size
    spots[op.dst] = max(op.size, spots.get(op.dst, 0))
    return sum(spots.values()) + op.scratch_bytes
