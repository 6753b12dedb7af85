"""What it takes to run the rest of a bundle from one cut on.

payload -> codec -> (whole pictures: task.prepare) -> stage -> task.finish -> answer's tensors
                                                |        ^
                                                segment -' that of a later cut

A bundle may hold the way from one cut to a later one as a stage: a segment. Then requests at both
can share the later cut's stage.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headtail_edge.mixing import Hop
from headtail_edge.stage_memory import LazyStage, StageMemory
from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer, DType
from headtail_models.bundle.codecs import CutCodecs, PictureCodecs
from headtail_models.bundle.manifest import INPUT, Cut, Preprocess, StageEntry
from headtail_models.bundle.reader import Bundle
from headtail_models.task import Task, task_for


class PlanKey(NamedTuple):
    """Requests with the same key can be computed together."""

    digest: bytes
    cut: str

    def __repr__(self) -> str:
        return f"{self.digest.hex()[:12]}/{self.cut}"


class SegmentKey(NamedTuple):
    """The segment that begins at a cut, and the cut where it ends."""

    start: PlanKey
    until: str

    def __repr__(self) -> str:
        return f"{self.start!r}-{self.until}"

    @property
    def digest(self) -> bytes:
        return self.start.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The one tensor that a request at this cut must carry; `shape` is None for pictures, which
    come in any size (1, H, W, 3)."""

    name: str
    dtype: DType
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A cut that a frame may be sent at, and in which codecs."""

    key: PlanKey
    gmacs: float
    codecs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Onward:
    """The segment behind a cut, to where `plan` goes on: tensors of `input_name` in, of
    `output_name` out, `gmacs` (1e9 multiply-adds) for one request."""

    key: SegmentKey
    gmacs: float
    input_name: str
    output_name: str
    stage: LazyStage
    plan: "TailPlan"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class TailPlan:
    """How requests of one bundle at one cut are computed. Immutable, shared by all threads, but for
    the codecs that `codecs` makes, which are for one each.

    `folder` is where the bundle lies, `gmacs` what a tail computes for one request, in 1e9
    multiply-adds, `ways` are all cuts of the bundle, the longest tail first. `onward` is the
    segment that the stage begins with, where it meets another cut's."""

    key: PlanKey
    folder: Path
    gmacs: float
    ways: tuple[Way, ...]
    expected: Expected
    codecs: CutCodecs
    input_name: str
    stage: LazyStage
    task: Task
    onward: Onward | None = None

    def path(self, *, goal: PlanKey | None = None) -> Iterator[Onward]:
        """The segments that the stage begins with, one behind the other, up to the cut of `goal` or
        as far as they lead."""
        plan = self
        while plan.onward is not None and plan.key != goal:
            yield plan.onward
            plan = plan.onward.plan

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The same, as the batcher knows them."""
        return tuple(
            Hop(onward.key, onward.gmacs, onward.plan.key, onward.plan.gmacs)
            for onward in self.path()
        )

    def forget(self) -> None:
        """Let go of the stages for good: the bundle is not served any more."""
        self.stage.forget()
        if self.onward is not None:
            self.onward.stage.forget()

    @property
    def takes_pictures(self) -> bool:
        """Whether whole pictures come in, which the edge prepares itself."""
        return self.expected.shape is None

    def decode(self, codec: TensorCodec, payload: Buffer, shape: tuple[int, ...]) -> Array:
        """The stage's input (1, ...) out of one payload. Raises CodecError."""
        tensor = codec.decode(payload, shape)
        return self.task.prepare(tensor[0])[0] if self.takes_pictures else tensor


def plans_of(
    bundle: Bundle, *, threads: int, memory: StageMemory | None = None, pinned: bool = False
) -> Iterator[TailPlan]:
    """A plan for whole pictures, if the bundle takes pictures, and one for each cut; `threads`
    compute one batch. Stages that are not `pinned` may be closed to save `memory`.

    Raises TaskError when the bundle's task makes no sense, BadCoderError, BundleStorageError.
    """
    task = task_for(bundle.manifest)
    ways = tuple(sorted(_ways(bundle), key=lambda way: -way.gmacs))

    def lazy(entry: StageEntry) -> LazyStage:
        return LazyStage(
            lambda: bundle.open_stage(entry, threads=threads),
            memory=memory,
            size_bytes=_stage_bytes(bundle, entry),
            pinned=pinned,
        )

    def plan(
        cut: str,
        entry: StageEntry,
        expected: Expected,
        codecs: CutCodecs,
        onward: Onward | None = None,
    ) -> TailPlan:
        return TailPlan(
            key=PlanKey(bundle.digest, cut),
            folder=bundle.path,
            gmacs=entry.macs / 1e9,
            ways=ways,
            expected=expected,
            codecs=codecs,
            input_name=entry.inputs[0].name,
            stage=lazy(entry),
            task=task,
            onward=onward,
        )

    if isinstance(bundle.manifest.preprocess, Preprocess):
        picture = Expected(name=INPUT, dtype=DType.UINT8, shape=None)
        yield plan(INPUT, bundle.full(), picture, PictureCodecs())
    made: dict[str, TailPlan] = {}
    for cut in _last_first(bundle.manifest.cuts):
        onward = None
        if cut.segment is not None:
            stage = cut.segment.stage
            onward = Onward(
                key=SegmentKey(PlanKey(bundle.digest, cut.name), cut.segment.until),
                gmacs=stage.macs / 1e9,
                input_name=stage.inputs[0].name,
                output_name=stage.outputs[0].name,
                stage=lazy(stage),
                plan=made[cut.segment.until],
            )
        expected = Expected(
            name=cut.tensor.name,
            dtype=DType[cut.tensor.dtype.upper()],
            shape=(1, *cut.tensor.shape),
        )
        made[cut.name] = plan(cut.name, cut.tail, expected, bundle.codecs(cut.name), onward)
    yield from (made[cut.name] for cut in bundle.manifest.cuts)


def meeting(plans: Iterable[TailPlan]) -> TailPlan | None:
    """The first plan that the tails of all of them lead to, or None; that of one is itself."""
    ways = [
        {plan.key: plan for plan in (first, *(onward.plan for onward in first.path()))}
        for first in plans
    ]
    return next((plan for key, plan in ways[0].items() if all(key in way for way in ways)), None)


def segments_to(goal: TailPlan, plans: Iterable[TailPlan]) -> list[Onward]:
    """All that lead from those plans' cuts to the goal's. The furthest from it come first, so that
    each begins with all that comes to its cut."""
    found = {onward.key: onward for plan in plans for onward in plan.path(goal=goal.key)}
    return sorted(found.values(), key=lambda one: -sum(1 for _ in one.plan.path(goal=goal.key)))


def _last_first(cuts: Sequence[Cut]) -> list[Cut]:
    """In an order in which every segment's end comes before its beginning: it has a shorter tail,
    or one as long and is listed later (`cut_rules`)."""
    order = sorted(enumerate(cuts), key=lambda item: (item[1].tail.macs, -item[0]))
    return [cut for _, cut in order]


def _ways(bundle: Bundle) -> Iterator[Way]:
    for cut in bundle.manifest.cuts:
        key = PlanKey(bundle.digest, cut.name)
        yield Way(key=key, gmacs=cut.tail.macs / 1e9, codecs=cut.codecs)


def _stage_bytes(bundle: Bundle, entry: StageEntry) -> int:
    """At most so much of the bundle is read for a stage: its own file, and what is neither a
    stage nor a coder, the weights."""
    manifest = bundle.manifest
    others = {stage.file for stage in manifest.stages() if stage.file != entry.file}
    others |= {coder.file for cut in manifest.cuts for coder in cut.coders.values()}
    return sum(file.size_bytes for file in manifest.files if file.path not in others)
