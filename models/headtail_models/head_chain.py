"""The device's part of a cut, segment by segment, until a gate ends the frame.

    input -> trunk -> branch -> ends? -> trunk -> branch -> ends? -> head -> the tensor that crosses

Each arrow is a stage of its own: what lies behind the gate that ends a frame is not computed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.errors import NoClassThresholdsError, UnknownPointError
from headtail_models.bundle.manifest import (
    Cut,
    Exit,
    Filter,
    Gate,
    OperatingPoint,
    StageEntry,
)
from headtail_models.exits.criteria import confidence, probabilities
from headtail_models.exits.policy import ConfidenceGuided, ExitPolicy, PerClass, Threshold
from headtail_models.stage import Stage

OpenStage = Callable[[StageEntry], Stage]
PolicyName = Literal["threshold", "per-class", "guided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Which gates are heeded. `exit_point`: the operating point of all exits, empty for the
    bundle's default, `off` for no exits. A gate that is not heeded is not computed either.

    `exit_policy` says who leaves at that point: whoever is sure enough (`threshold`), the same
    share of every class (`per-class`), or a fixed share with some chance (`guided`); the last two
    tell an observer less of what was seen (`exits.policy`).
    """

    exit_point: str = ""
    exit_policy: PolicyName = "threshold"
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
    """Gates and head of one cut, for one stream of frames: the policy `guided` remembers those
    before. Else as safe to share by threads as its stages are."""

    def __init__(
        self,
        cut: Cut,
        open_stage: OpenStage,
        *,
        settings: GateSettings | None = None,
        random: np.random.Generator | None = None,
    ) -> None:
        """Opens every stage that is heeded. `random`: chance of the policy `guided`; by default
        nobody can foresee it. Raises UnknownPointError when the cut has exits, but without that
        operating point; NoClassThresholdsError; and what `open_stage` raises."""
        chosen = settings if settings is not None else GateSettings()
        if cut.exits():
            check_exit_point([cut], chosen.exit_point)
        open_exits = _open_exits(cut, chosen)
        policy = _policy(tuple(open_exits.values()), chosen, random)
        levels = {name: level for level, name in enumerate(open_exits)}
        self._links: list[_Segment | _FilterGate | _ExitGate] = []
        for gate in cut.gates:
            if gate.trunk is not None:
                self._links.append(_Segment(gate.trunk, open_stage))
            if isinstance(gate, Exit) and gate.name in levels:
                self._links.append(
                    _ExitGate(
                        gate,
                        _Segment(gate.branch, open_stage),
                        level=levels[gate.name],
                        threshold=open_exits[gate.name].threshold,
                        policy=policy,
                    )
                )
            elif isinstance(gate, Filter) and chosen.filter:
                self._links.append(_FilterGate(gate, _Segment(gate.branch, open_stage)))
        self._links.append(_Segment(cut.head, open_stage))
        gates = [at for at, link in enumerate(self._links) if not isinstance(link, _Segment)]
        self._gates_end = gates[-1] + 1 if gates else 0

    def run(
        self, tensor: Array, *, heed: bool = True, passed: Callable[[], None] | None = None
    ) -> HeadRun:
        """One frame, the network's input (1, ...). Without `heed` no gate ends it, whatever it
        says, and no policy is asked: `ends` then is by the plain threshold. `passed` is called when
        no gate can end it any more, before the segments behind the last one run. Raises
        StageInputError, StageRunError."""
        verdicts: list[Verdict] = []
        macs = 0
        for place, link in enumerate(self._links):
            if place == self._gates_end and passed is not None:
                passed()
            macs += link.macs
            if isinstance(link, _Segment):
                tensor = link.run(tensor)
                continue
            verdicts.append(link.judge(tensor, ask=heed))
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


class _FilterGate:
    """A filter that is heeded."""

    def __init__(self, gate: Filter, branch: _Segment) -> None:
        self._gate = gate
        self._branch = branch
        self.macs = branch.macs

    def judge(self, tensor: Array, *, ask: bool) -> Verdict:
        gate = self._gate
        shares = probabilities(self._branch.run(tensor), temperature=gate.temperature)[0]
        sure = float(shares[1])
        return Verdict(gate=gate, confidence=sure, ends=sure < gate.threshold, shares=shares)


class _ExitGate:
    """An exit at which frames may leave, the `level`-th of those."""

    def __init__(
        self, gate: Exit, branch: _Segment, *, level: int, threshold: float, policy: ExitPolicy
    ) -> None:
        self._gate = gate
        self._branch = branch
        self._level = level
        self._threshold = threshold
        self._policy = policy
        self.macs = branch.macs

    def judge(self, tensor: Array, *, ask: bool) -> Verdict:
        gate, logits = self._gate, self._branch.run(tensor)
        shares = probabilities(logits, temperature=gate.temperature)[0]
        found = confidence(logits, criterion=gate.criterion, temperature=gate.temperature)
        sure = float(found[0])
        if not self._has_answer(logits, sure):
            ends = False
        elif ask:
            prediction = int(logits[0].argmax())
            ends = self._policy.leaves(self._level, confidence=sure, prediction=prediction)
        else:
            ends = sure >= self._threshold
        return Verdict(gate=gate, confidence=sure, ends=ends, shares=shares)

    def _has_answer(self, logits: NDArray[Any], sure: float) -> bool:
        if not np.isfinite(sure):
            return False
        return not (self._gate.goes_on and int(logits[0].argmax()) == self._gate.logits - 1)


def _open_exits(cut: Cut, settings: GateSettings) -> dict[str, OperatingPoint]:
    """By name the exits at which frames may leave, and how."""
    if settings.exit_point == OFF:
        return {}
    found = {}
    for exit_ in cut.exits():
        point = exit_.point(settings.exit_point or exit_.default_point)
        assert point is not None, "checked before, or when the bundle was opened"
        if point.threshold <= 1:
            found[exit_.name] = point
    return found


def _policy(
    points: Sequence[OperatingPoint], settings: GateSettings, random: np.random.Generator | None
) -> ExitPolicy:
    if settings.exit_policy == "threshold" or not points:
        return Threshold([point.threshold for point in points])
    lacking = [point.name for point in points if not point.by_class]
    if lacking:
        raise NoClassThresholdsError(f"no thresholds by class at {lacking[0]!r}", point=lacking[0])
    by_class = np.array([point.by_class for point in points], dtype=np.float64)
    if settings.exit_policy == "per-class":
        return PerClass(by_class)
    leaving = [point.coverage for point in points]
    rates = np.array([*leaving, max(0.0, 1 - sum(leaving))])
    chance = random if random is not None else np.random.default_rng()
    return ConfidenceGuided(by_class, (rates / rates.sum()).tolist(), chance)
