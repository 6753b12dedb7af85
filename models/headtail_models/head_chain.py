"""The device's part of a cut, segment by segment, until a gate ends the frame.

    input -> trunk -> branch -> ends? -> trunk -> branch -> ends? -> head -> the tensor that crosses

Each arrow is a stage of its own: what lies behind the gate that ends a frame is not computed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.errors import UnknownPointError
from headtail_models.bundle.manifest import Cut, Exit, Filter, Gate, StageEntry
from headtail_models.exits.criteria import confidence, leaves, probabilities
from headtail_models.stage import Stage

OpenStage = Callable[[StageEntry], Stage]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Which gates are heeded. `exit_point`: the operating point of all exits, empty for the
    bundle's default, `off` for no exits. A gate that is not heeded is not computed either."""

    exit_point: str = ""
    filter: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What one gate said of one frame.

    `confidence`: of an exit by its criterion, of a filter the probability of something; it is not
    finite when the branch's logits were not, and then the frame goes on. `shares` (K,):
    probabilities of the gate's logits.
    """

    gate: Gate
    confidence: float
    ends: bool
    shares: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadRun:
    """`tensor` (1, ...) crosses; None when the last of `verdicts` ended the frame. `macs`: the
    multiply-adds of what was computed."""

    tensor: Array | None
    verdicts: tuple[Verdict, ...]
    macs: int


def check_exit_point(cuts: Iterable[Cut], name: str) -> None:
    """Raises UnknownPointError unless an exit of one of `cuts` has an operating point of that name,
    or it stands for the default or none."""
    known = dict.fromkeys(
        point.name for cut in cuts for exit_ in cut.exits() for point in exit_.points
    )
    if name not in ("", OFF, *known):
        raise UnknownPointError(
            f"no operating point {name[:64]!r}, only {', '.join(known) or 'none'}", point=name
        )


class HeadChain:
    """Gates and head of one cut. As safe to share by threads as its stages are."""

    def __init__(
        self, cut: Cut, open_stage: OpenStage, *, settings: GateSettings | None = None
    ) -> None:
        """Opens every stage that is heeded. Raises UnknownPointError when the cut has exits, but
        without that operating point; and what `open_stage` raises."""
        chosen = settings if settings is not None else GateSettings()
        if cut.exits():
            check_exit_point([cut], chosen.exit_point)
        self._links: list[_Segment | _Decision] = []
        for gate in cut.gates:
            if gate.trunk is not None:
                self._links.append(_Segment(gate.trunk, open_stage))
            threshold = _threshold(gate, chosen)
            if threshold is not None:
                branch = _Segment(gate.branch, open_stage)
                self._links.append(_Decision(gate, branch, threshold))
        self._links.append(_Segment(cut.head, open_stage))

    def run(self, tensor: Array, *, heed: bool = True) -> HeadRun:
        """One frame, the network's input (1, ...). Without `heed` no gate ends it, whatever it
        says. Raises StageInputError, StageRunError."""
        verdicts: list[Verdict] = []
        macs = 0
        for link in self._links:
            macs += link.macs
            if isinstance(link, _Segment):
                tensor = link.run(tensor)
                continue
            verdicts.append(link.judge(tensor))
            if heed and verdicts[-1].ends:
                return HeadRun(tensor=None, verdicts=tuple(verdicts), macs=macs)
        return HeadRun(tensor=tensor, verdicts=tuple(verdicts), macs=macs)


class _Segment:
    """An open stage of one tensor in and one out."""

    def __init__(self, entry: StageEntry, open_stage: OpenStage) -> None:
        self._stage = open_stage(entry)
        self._input, self._output = entry.inputs[0].name, entry.outputs[0].name
        self.macs = entry.macs

    def run(self, tensor: Array) -> Array:
        return self._stage.run({self._input: tensor})[self._output]


class _Decision:
    """A gate that is heeded."""

    def __init__(self, gate: Gate, branch: _Segment, threshold: float) -> None:
        self._gate = gate
        self._branch = branch
        self._threshold = threshold
        self.macs = branch.macs

    def judge(self, tensor: Array) -> Verdict:
        gate, logits = self._gate, self._branch.run(tensor)
        shares = probabilities(logits, temperature=gate.temperature)[0]
        if isinstance(gate, Filter):
            sure = float(shares[1])
            ends = sure < self._threshold
        else:
            sure, ends = self._leaves(gate, logits)
        return Verdict(gate=gate, confidence=sure, ends=ends, shares=shares)

    def _leaves(self, gate: Exit, logits: NDArray[Any]) -> tuple[float, bool]:
        found = confidence(logits, criterion=gate.criterion, temperature=gate.temperature)
        stays = gate.goes_on and int(logits[0].argmax()) == gate.logits - 1
        return float(found[0]), bool(leaves(found, self._threshold)[0]) and not stays


def _threshold(gate: Gate, settings: GateSettings) -> float | None:
    """None for a gate that ends no frame."""
    if isinstance(gate, Filter):
        return gate.threshold if settings.filter else None
    if settings.exit_point == OFF:
        return None
    point = gate.point(settings.exit_point or gate.default_point)
    assert point is not None, "checked when the chain was made, or when the bundle was opened"
    return point.threshold if point.threshold <= 1 else None
