"""What it takes to run the rest of a bundle from one cut on.

payload -> codec -> (whole pictures: task.prepare) -> stage -> task.finish -> answer's tensors
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headtail_edge.stage_memory import LazyStage, StageMemory
from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer, DType
from headtail_models.bundle.codecs import CutCodecs, PictureCodecs
from headtail_models.bundle.manifest import INPUT, Preprocess, StageEntry
from headtail_models.bundle.reader import Bundle
from headtail_models.task import Task, task_for


class PlanKey(NamedTuple):
    """Requests with the same key can be computed together."""

    digest: bytes
    cut: str

    def __repr__(self) -> str:
        return f"{self.digest.hex()[:12]}/{self.cut}"


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class TailPlan:
    """How requests of one bundle at one cut are computed. Immutable, shared by all threads, but for
    the codecs that `codecs` makes, which are for one each.

    `folder` is where the bundle lies, `gmacs` what a tail computes for one request, in 1e9
    multiply-adds, `ways` are all cuts of the bundle, the longest tail first."""

    key: PlanKey
    folder: Path
    gmacs: float
    ways: tuple[Way, ...]
    expected: Expected
    codecs: CutCodecs
    input_name: str
    stage: LazyStage
    task: Task

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

    def plan(cut: str, entry: StageEntry, expected: Expected, codecs: CutCodecs) -> TailPlan:
        return TailPlan(
            key=PlanKey(bundle.digest, cut),
            folder=bundle.path,
            gmacs=entry.macs / 1e9,
            ways=ways,
            expected=expected,
            codecs=codecs,
            input_name=entry.inputs[0].name,
            stage=LazyStage(
                lambda: bundle.open_stage(entry, threads=threads),
                memory=memory,
                size_bytes=_stage_bytes(bundle, entry),
                pinned=pinned,
            ),
            task=task,
        )

    if isinstance(bundle.manifest.preprocess, Preprocess):
        picture = Expected(name=INPUT, dtype=DType.UINT8, shape=None)
        yield plan(INPUT, bundle.full(), picture, PictureCodecs())
    for cut in bundle.manifest.cuts:
        expected = Expected(
            name=cut.tensor.name,
            dtype=DType[cut.tensor.dtype.upper()],
            shape=(1, *cut.tensor.shape),
        )
        yield plan(cut.name, cut.tail, expected, bundle.codecs(cut.name))


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
