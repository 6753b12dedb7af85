"""Gates and head in a row: what a gate ends is not computed any further."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.errors import NoClassThresholdsError, UnknownPointError
from headtail_models.bundle.manifest import Cut, Exit, Filter, OperatingPoint, StageEntry
from headtail_models.bundle.specimen import write_specimen
from headtail_models.head_chain import (
    GateSettings,
    HeadChain,
    HeadRun,
    PolicyName,
    check_exit_point,
)
from headtail_models.stage import Stage, StageRunError
from headtail_models.tensor import TensorSpec

DARK, GREY, BRIGHT = 0.02, 0.25, 0.8
TRUNK1, BRANCH1, TRUNK2, BRANCH2, HEAD = (
    "trunk-presence.onnx",
    "branch-presence.onnx",
    "trunk-guess.onnx",
    "branch-guess.onnx",
    "head-code.onnx",
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("chain") / "gated", gated=True))


class Counting:
    """Opens real stages and counts how often each is run."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.opened: list[str] = []
        self.runs: Counter[str] = Counter()

    def __call__(self, entry: StageEntry) -> Stage:
        self.opened.append(entry.file)
        stage = self._bundle.open_stage(entry)
        return _Scripted(lambda inputs: self._run(entry.file, stage, inputs))

    def _run(self, file: str, stage: Stage, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self.runs[file] += 1
        return stage.run(inputs)


class _Scripted:
    def __init__(self, answer: Callable[[Mapping[str, Array]], dict[str, Array]]) -> None:
        self._answer = answer

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self._answer(inputs)


def plain(brightness: float) -> Array:
    return np.full((1, 3, 16, 16), brightness, dtype=np.float32)


def said(run: HeadRun) -> list[tuple[str, bool]]:
    return [(verdict.gate.name, verdict.ends) for verdict in run.verdicts]


def test_a_frame_that_passes_every_gate_crosses(bundle: Bundle) -> None:
    counting = Counting(bundle)
    cut = bundle.cut("code")
    run = HeadChain(cut, counting).run(plain(GREY))
    assert run.tensor is not None
    assert run.tensor.shape == (1, 6, 8, 8)
    assert said(run) == [("presence", False), ("guess", False)]
    assert run.macs == cut.device_macs
    assert counting.runs == dict.fromkeys((TRUNK1, BRANCH1, TRUNK2, BRANCH2, HEAD), 1)


def test_it_is_said_when_no_gate_can_end_the_frame_any_more(bundle: Bundle) -> None:
    counting = Counting(bundle)
    ran_before: list[set[str]] = []

    def passed() -> None:
        ran_before.append(set(counting.runs))

    chain = HeadChain(bundle.cut("code"), counting)
    chain.run(plain(DARK), passed=passed)
    assert ran_before == []
    chain.run(plain(GREY), passed=passed)
    assert ran_before == [{TRUNK1, BRANCH1, TRUNK2, BRANCH2}]
    HeadChain(bundle.cut("late"), bundle.open_stage).run(plain(GREY), passed=passed)
    assert len(ran_before) == 2


def test_what_the_filter_ends_is_not_computed_further(bundle: Bundle) -> None:
    counting = Counting(bundle)
    run = HeadChain(bundle.cut("code"), counting).run(plain(DARK))
    assert run.tensor is None
    assert said(run) == [("presence", True)]
    assert run.verdicts[0].confidence == pytest.approx(0.29, abs=0.02)
    assert counting.runs == {TRUNK1: 1, BRANCH1: 1}
    assert run.macs == bundle.cut("code").gates[0].macs


def test_what_an_exit_answers_is_not_computed_further(bundle: Bundle) -> None:
    counting = Counting(bundle)
    run = HeadChain(bundle.cut("code"), counting).run(plain(BRIGHT))
    assert run.tensor is None
    assert said(run) == [("presence", False), ("guess", True)]
    assert HEAD not in counting.runs
    last = run.verdicts[-1]
    assert last.confidence == pytest.approx(last.shares.max())
    full = bundle.open_stage(bundle.full()).run({"picture": plain(BRIGHT)})["logits"]
    assert last.shares.argmax() == full.argmax()


def test_verdicts_need_not_be_heeded(bundle: Bundle) -> None:
    run = HeadChain(bundle.cut("code"), bundle.open_stage).run(plain(DARK), heed=False)
    assert run.tensor is not None
    assert said(run) == [("presence", True), ("guess", False)]


@pytest.mark.parametrize(
    ("settings", "left_out", "ended"),
    [
        (GateSettings(exit_point="off"), {BRANCH2}, [("presence", False)]),
        (GateSettings(filter=False), {BRANCH1}, [("guess", True)]),
        (GateSettings(filter=False, exit_point="off"), {BRANCH1, BRANCH2}, []),
        (GateSettings(exit_point="closed"), {BRANCH2}, [("presence", False)]),
    ],
)
def test_a_gate_that_is_not_heeded_is_not_even_opened(
    bundle: Bundle, settings: GateSettings, left_out: set[str], ended: list[tuple[str, bool]]
) -> None:
    counting = Counting(bundle)
    run = HeadChain(bundle.cut("code"), counting, settings=settings).run(plain(BRIGHT))
    assert set(counting.opened) == {TRUNK1, BRANCH1, TRUNK2, BRANCH2, HEAD} - left_out
    assert said(run) == ended


def test_the_operating_point_decides(bundle: Bundle) -> None:
    cut = bundle.cut("code")
    ends = {}
    for name in ("", "careful", "eager"):
        chain = HeadChain(cut, bundle.open_stage, settings=GateSettings(exit_point=name))
        ends[name] = chain.run(plain(GREY)).tensor is None
    assert ends == {"": False, "careful": False, "eager": True}


def test_a_point_that_is_not_there_says_which_are(bundle: Bundle) -> None:
    reckless = GateSettings(exit_point="reckless")
    with pytest.raises(UnknownPointError, match="only eager, careful, closed"):
        HeadChain(bundle.cut("code"), bundle.open_stage, settings=reckless)
    with pytest.raises(UnknownPointError, match="only none"):
        check_exit_point(bundle.manifest.cuts[:2], "eager")
    for name in ("", "off", "eager"):
        check_exit_point(bundle.manifest.cuts, name)


def test_a_cut_without_exits_does_without_the_point(bundle: Bundle) -> None:
    eager = GateSettings(exit_point="eager")
    assert HeadChain(bundle.cut("late"), bundle.open_stage, settings=eager).run(plain(GREY))


def test_a_cut_without_gates_is_its_head(bundle: Bundle) -> None:
    cut = bundle.cut("late")
    run = HeadChain(cut, bundle.open_stage).run(plain(GREY))
    assert run.verdicts == ()
    assert run.macs == cut.head.macs == cut.device_macs
    assert run.tensor is not None
    expected = bundle.open_stage(cut.head).run({"picture": plain(GREY)})["late"]
    np.testing.assert_array_equal(run.tensor, expected)


def entry(file: str, start: str, end: str, *shape: int) -> StageEntry:
    return StageEntry(
        file=file,
        inputs=(TensorSpec(name=start, dtype="float32", shape=(2,)),),
        outputs=(TensorSpec(name=end, dtype="float32", shape=shape),),
        macs=1,
    )


def exit_at(logits: int, **changes: object) -> Exit:
    gate = Exit(
        name="sure",
        branch=entry("branch", "x", "logits", logits),
        criterion="max-probability",
        points=(OperatingPoint(name="p", threshold=0.7, coverage=0.5, drop=0.0),),
        default_point="p",
    )
    return replace(gate, **changes)


def chain_of(
    gate: Exit | Filter,
    logits: Callable[[], list[float]],
    *,
    settings: GateSettings | None = None,
    seed: int = 0,
) -> HeadChain:
    """The gate alone, looking at the network's input, with a branch that says `logits`."""
    cut = Cut(
        name="c",
        gates=(gate,),
        head=entry("head", "x", "y", 2),
        tail=entry("tail", "y", "z", 2),
        codecs=("raw",),
    )

    def open_stage(stage: StageEntry) -> Stage:
        def answer(inputs: Mapping[str, Array]) -> dict[str, Array]:
            given = [logits()] if stage.file == "branch" else [[0.0, 0.0]]
            return {stage.outputs[0].name: np.array(given, dtype=np.float32)}

        return _Scripted(answer)

    return HeadChain(cut, open_stage, settings=settings, random=np.random.default_rng(seed))


INPUT = np.zeros((1, 2), dtype=np.float32)


def judged(gate: Exit | Filter, logits: list[float]) -> HeadRun:
    return chain_of(gate, lambda: logits).run(INPUT)


def by_class(*thresholds: float, coverage: float = 0.5) -> tuple[OperatingPoint, ...]:
    point = OperatingPoint(
        name="p", threshold=0.7, coverage=coverage, drop=0.0, by_class=thresholds
    )
    return (point,)


def left(chain: HeadChain, frames: int = 1) -> list[bool]:
    return [chain.run(INPUT).tensor is None for _ in range(frames)]


def test_with_a_threshold_by_class_it_depends_on_what_would_be_answered() -> None:
    """Both are 0.88 sure."""
    gate = exit_at(2, points=by_class(0.95, 0.8))
    settings = GateSettings(exit_policy="per-class")
    assert left(chain_of(gate, lambda: [2.0, 0.0], settings=settings)) == [False]
    assert left(chain_of(gate, lambda: [0.0, 2.0], settings=settings)) == [True]
    assert left(chain_of(gate, lambda: [2.0, 0.0])) == [True], "the plain threshold is 0.7"


def test_guided_by_confidence_a_fixed_share_leaves_whatever_is_seen() -> None:
    settings = GateSettings(exit_policy="guided")
    for sure in ([4.0, 0.0], [0.1, 0.0]):
        gate = exit_at(2, points=by_class(0.7, 0.7, coverage=0.25))
        shares = left(chain_of(gate, partial(list, sure), settings=settings), 2000)
        assert np.mean(shares) == pytest.approx(0.25, abs=0.01)


def test_only_heeded_frames_count_for_the_share() -> None:
    settings = GateSettings(exit_policy="guided")
    gate = exit_at(2, points=by_class(0.7, 0.7))
    plain_, measured = (
        chain_of(gate, lambda: [2.0, 0.0], settings=settings, seed=3) for _ in range(2)
    )
    expected = left(plain_, 50)
    found = []
    for _ in range(50):
        measured.run(INPUT, heed=False)
        found += left(measured)
    assert found == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("policy", ["per-class", "guided"])
def test_an_answer_that_is_none_leaves_under_no_policy(policy: PolicyName) -> None:
    settings = GateSettings(exit_policy=policy)
    eager = by_class(0.0, 0.0, coverage=1.0)
    goes_on = exit_at(3, goes_on=True, classes=(0, 1), points=eager)
    assert left(chain_of(goes_on, lambda: [0.0, 0.0, 9.0], settings=settings), 30) == [False] * 30
    broken = exit_at(2, points=eager)
    nan = float("nan")
    assert left(chain_of(broken, lambda: [0.0, nan], settings=settings), 30) == [False] * 30
    assert left(chain_of(broken, lambda: [0.0, 9.0], settings=settings), 30) == [True] * 30


@pytest.mark.parametrize("policy", ["per-class", "guided"])
def test_a_policy_by_class_needs_thresholds_by_class(policy: PolicyName, bundle: Bundle) -> None:
    settings = GateSettings(exit_policy=policy)
    with pytest.raises(NoClassThresholdsError, match="careful"):
        HeadChain(bundle.cut("code"), bundle.open_stage, settings=settings)
    off = GateSettings(exit_policy=policy, exit_point="off")
    assert HeadChain(bundle.cut("code"), bundle.open_stage, settings=off)
    assert HeadChain(bundle.cut("late"), bundle.open_stage, settings=settings)


def test_an_exit_that_prefers_to_go_on_does_not_answer() -> None:
    answers = exit_at(3, classes=(4, 2), goes_on=True)
    assert judged(answers, [9.0, 0.0, 0.0]).tensor is None
    passed = judged(answers, [0.0, 0.0, 9.0])
    assert passed.tensor is not None
    assert passed.verdicts[0].confidence > 0.99


def test_the_temperature_makes_an_exit_less_sure() -> None:
    assert judged(exit_at(2), [2.0, 0.0]).tensor is None
    assert judged(exit_at(2, temperature=4.0), [2.0, 0.0]).tensor is not None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_end_no_frame(bad: float) -> None:
    presence = Filter(name="f", branch=entry("branch", "x", "logits", 2), threshold=0.9, recall=0.9)
    for gate in (exit_at(2), presence):
        run = judged(gate, [0.0, bad])
        assert run.tensor is not None
        assert not np.isfinite(run.verdicts[0].confidence)


def test_at_the_threshold_itself_a_frame_is_not_filtered_and_leaves_at_an_exit() -> None:
    half = Filter(name="f", branch=entry("branch", "x", "logits", 2), threshold=0.5, recall=0.9)
    assert judged(half, [1.0, 1.0]).tensor is not None
    point = OperatingPoint(name="p", threshold=0.5, coverage=0.5, drop=0.0)
    assert judged(exit_at(2, points=(point,)), [1.0, 1.0]).tensor is None


def test_a_stage_that_fails_is_not_hidden(bundle: Bundle) -> None:
    def broken(inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise StageRunError("no memory")

    chain = HeadChain(bundle.cut("code"), lambda entry: _Scripted(broken))
    with pytest.raises(StageRunError):
        chain.run(plain(GREY))
