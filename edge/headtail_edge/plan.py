"""What it takes to run the rest of a bundle from one cut on.

payload -> codec -> (whole pictures: task.prepare) -> stage -> task.finish -> answer's tensors
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headtail_fabric.codec import TensorCodec
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer, DType
from headtail_models.bundle.codecs import CutCodecs, PictureCodecs
from headtail_models.bundle.manifest import INPUT, Preprocess, StageEntry
from headtail_models.bundle.reader import Bundle
from headtail_models.stage import Stage
from headtail_models.task import Task, task_for


@dataclass(frozen=True, slots=True, order=True)
class PlanKey:
    """Requests with the same key can be computed together."""

    digest: bytes
    cut: str

    def __repr__(self) -> str:
        return f"{self.digest.hex()[:12]}/{self.cut}"


class LazyStage:
    """A stage that is opened at its first use, once, whoever comes first."""

    def __init__(self, open_stage: Callable[[], Stage]) -> None:
        self._open_stage = open_stage
        self._lock = threading.Lock()
        self._stage: Stage | None = None

    def get(self) -> Stage:
        """The open stage. Raises what opening it raises, again at each try."""
        stage = self._stage
        if stage is None:
            with self._lock:
                if self._stage is None:
                    self._stage = self._open_stage()
                stage = self._stage
        return stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The one tensor that a request at this cut must carry; `shape` is None for pictures, which
    come in any size (1, H, W, 3)."""

    name: str
    dtype: DType
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TailPlan:
    """How requests of one bundle at one cut are computed. Immutable, shared by all threads, but for
    the codecs that `codecs` makes, which are for one each."""

    key: PlanKey
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


def plans_of(bundle: Bundle, *, threads: int) -> Iterator[TailPlan]:
    """A plan for whole pictures, if the bundle takes pictures, and one for each cut; `threads`
    compute one batch.

    Raises TaskError when the bundle's task makes no sense, BadCoderError, BundleStorageError.
    """
    task = task_for(bundle.manifest)

    def plan(cut: str, entry: StageEntry, expected: Expected, codecs: CutCodecs) -> TailPlan:
        return TailPlan(
            key=PlanKey(bundle.digest, cut),
            expected=expected,
            codecs=codecs,
            input_name=entry.inputs[0].name,
            stage=LazyStage(lambda: bundle.open_stage(entry, threads=threads)),
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
