"""Tails of bundles: what a model of this tier is, and one that is opened and ready to run.

yolov3-tiny-coco:L4    the network of that bundle from its cut `L4` on
yolov3-tiny-coco       all of it, from the prepared picture on, or from a picture in JPEG or WebP
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from headtail_cloud.core.request import Segment
from headtail_cloud.open_inference.message import NAMES, InferRequest
from headtail_fabric.codec import CodecError, TensorCodec, codec_for
from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError
from headtail_fabric.wire import Buffer, DType
from headtail_models.audio.task import TAGS
from headtail_models.bundle import Bundle
from headtail_models.bundle.codecs import PICTURE_CODECS, CutCodecs, PictureCodecs
from headtail_models.bundle.manifest import INPUT, DetectTask, Preprocess, StageEntry, TagTask
from headtail_models.stage import Stage
from headtail_models.task import DETECTIONS, LOGITS, Task, task_for
from headtail_models.tensor import TensorSpec

RAW: Final = "raw"
MAX_PIXELS: Final = 20_000_000
"""Of a picture that is sent whole."""
_WARM_RUNS: Final = 2
_RUN_SHARE: Final = 0.2
"""Of a single item's time, what is taken to be the run's own until more is known."""

Timer = Callable[[], float]


class NothingServedError(ConfigError):
    """There is no tail to serve. Name a bundle, or a bundle and one of its cuts as `bundle:cut`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailInput:
    """One request's tensor as it came. `outputs`: names of those wanted, with none the answer
    alone."""

    payload: Buffer
    shape: tuple[int, ...]
    codec: str = RAW
    quantiser: str = ""
    outputs: tuple[str, ...] = ()


class TailInputError(CodecError):
    """A request's tensor is not the one that this tail takes. Ask for the model's metadata: it has
    the name, the type and the shape; the bundle has the codecs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TailModel:
    """What a model takes and gives, wherever it runs.

    Outputs are the task's answer (`detections` (1, n, 6) or `logits` (1, labels)), and, where they
    are asked for, the network's own.
    """

    name: str
    version: str
    digest: bytes
    cut: str
    """`input` of a whole network."""
    input: TensorSpec
    answer: TensorSpec
    raw_outputs: tuple[TensorSpec, ...]
    codecs: CutCodecs | None
    task: Task

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}@{self.version}>"

    @property
    def segment(self) -> Segment:
        return Segment(f"{self.name}@{self.version}", "tail")

    @property
    def codec_ids(self) -> tuple[str, ...]:
        """Those a request's tensor may come in."""
        own = self.codecs.ids if self.codecs is not None else ()
        return (RAW, *(codec for codec in own if codec != RAW))

    def check(self, request: TailInput) -> None:
        """Raises TailInputError for a request that can't be computed, before anything is."""
        if request.codec not in self.codec_ids:
            allowed = ", ".join(self.codec_ids)
            raise TailInputError(f"codec {request.codec[:40]!r}, allowed: {allowed}")
        if request.codec in PICTURE_CODECS:
            _check_picture(request.shape)
        elif request.shape != (expected := (1, *self.input.shape)):
            raise TailInputError(f"{self.input.name!r} of shape {request.shape}, not {expected}")
        table = self.codecs.table(request.codec) if self.codecs is not None else ""
        if request.quantiser != table:
            raise TailInputError(f"quantiser {request.quantiser[:40]!r}, not {table!r}")
        known = {self.answer.name, *(spec.name for spec in self.raw_outputs)}
        for name in request.outputs:
            if name not in known:
                raise TailInputError(f"no output {name[:40]!r}, only {', '.join(sorted(known))}")

    def accept(self, request: InferRequest) -> TailInput:
        """The engine's input for a request of the Open Inference Protocol. Raises
        TailInputError."""
        if request.name != self.input.name:
            raise TailInputError(f"input {request.name[:40]!r}, not {self.input.name!r}")
        datatype = NAMES["uint8" if request.codec in PICTURE_CODECS else self.input.dtype]
        if request.datatype != datatype:
            raise TailInputError(f"{self.input.name!r} as {request.datatype[:20]}, not {datatype}")
        accepted = TailInput(
            payload=request.payload,
            shape=request.shape,
            codec=request.codec,
            quantiser=request.quantiser,
            outputs=request.outputs,
        )
        self.check(accepted)
        return accepted

    def shape_of(self, output: TensorSpec) -> list[int]:
        """Of an output for one request; -1 where it depends on the request."""
        if output.name in (DETECTIONS, TAGS) and output == self.answer:
            return [1, -1, *output.shape[1:]]
        return [1, *output.shape]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ServedTail(TailModel):
    """One that runs here. `item_s` and `run_s`: what it took when it was warmed up, in seconds."""

    stage: Stage
    run_s: float
    item_s: float

    def new_codec(self, codec_id: str) -> TensorCodec:
        """For one thread. Raises CodecNotAllowedError."""
        if codec_id == RAW or self.codecs is None:
            return codec_for(RAW, dtype=DType[self.input.dtype.upper()])
        return self.codecs.new(codec_id)

    def decode(self, codec: TensorCodec, request: TailInput) -> Array:
        """The stage's input (1, ...); of a picture, prepared as a device would. Raises
        CodecError."""
        tensor = codec.decode(request.payload, request.shape)
        return self.task.prepare(tensor[0])[0] if request.codec in PICTURE_CODECS else tensor

    def run(
        self, tensors: Sequence[Array], wanted: Sequence[tuple[str, ...]]
    ) -> list[dict[str, Array]]:
        """The outputs of each tensor (1, ...). Raises StageError, ValueError."""
        stacked = np.concatenate(tensors) if len(tensors) > 1 else tensors[0]
        inputs = {self.input.name: np.require(stacked, requirements=["C", "A"])}
        raw = self.stage.run(inputs)
        answers = self.task.finish(raw)
        return [
            self._outputs(raw, answer, at, names)
            for at, (answer, names) in enumerate(zip(answers, wanted, strict=True))
        ]

    def _outputs(
        self, raw: Mapping[str, Array], answer: Mapping[str, Array], at: int, names: Sequence[str]
    ) -> dict[str, Array]:
        return {
            name: answer[name][np.newaxis] if name == self.answer.name else raw[name][at : at + 1]
            for name in names or (self.answer.name,)
        }


def _check_picture(shape: tuple[int, ...]) -> None:
    if len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or 0 in shape:
        raise TailInputError(f"a picture of shape {shape}, not (1, H, W, 3)")
    if shape[1] * shape[2] > MAX_PIXELS:
        raise TailInputError(f"a picture of {shape[2]}x{shape[1]} pixels, at most {MAX_PIXELS}")


def tail_models(bundle: Bundle, *, cut: str | None = None) -> Iterator[TailModel]:
    """The whole network and every cut of a bundle, or only that one cut, as they are described.

    Raises UnknownCutError, BadCoderError, TaskError.
    """
    yield from (model for model, _ in _models(bundle, cut))


def served_tails(
    bundle: Bundle, *, cut: str | None = None, threads: int = 1, timer: Timer = time.perf_counter
) -> Iterator[ServedTail]:
    """The same, opened and warmed up.

    Raises UnknownCutError, StageLoadError, StageRunError, BadCoderError, TaskError.
    """
    for model, entry in _models(bundle, cut):
        stage = bundle.open_stage(entry, threads=threads)
        took_s = _warmed_up(stage, entry.inputs[0], timer)
        yield ServedTail(
            **{field.name: getattr(model, field.name) for field in fields(model)},
            stage=stage,
            run_s=_RUN_SHARE * took_s,
            item_s=(1 - _RUN_SHARE) * took_s,
        )


def _models(bundle: Bundle, only: str | None) -> Iterator[tuple[TailModel, StageEntry]]:
    manifest, task = bundle.manifest, task_for(bundle.manifest)
    answer = _answer(bundle)

    def model(cut: str, entry: StageEntry, codecs: CutCodecs | None) -> TailModel:
        return TailModel(
            name=manifest.name if cut == INPUT else f"{manifest.name}:{cut}",
            version=manifest.version,
            digest=bundle.digest,
            cut=cut,
            input=entry.inputs[0],
            answer=answer,
            raw_outputs=tuple(spec for spec in entry.outputs if spec.name != answer.name),
            codecs=codecs,
            task=task,
        )

    if only is None:
        pictures = PictureCodecs() if isinstance(manifest.preprocess, Preprocess) else None
        yield model(INPUT, bundle.full(), pictures), bundle.full()
    for cut in manifest.cuts if only is None else (bundle.cut(only),):
        yield model(cut.name, cut.tail, bundle.codecs(cut.name)), cut.tail


def _warmed_up(stage: Stage, spec: TensorSpec, timer: Timer) -> float:
    """The first run allocates what later ones use; the last one's time is returned."""
    nothing = np.zeros((1, *spec.shape), dtype=spec.dtype)
    took_s = 0.0
    for _ in range(_WARM_RUNS):
        started = timer()
        stage.run({spec.name: nothing})
        took_s = timer() - started
    return took_s


def _answer(bundle: Bundle) -> TensorSpec:
    """What a task's answer looks like; of `detections` and `tags` the first axis is at most
    that long."""
    if isinstance(bundle.manifest.task, DetectTask):
        limit = min(bundle.manifest.task.max_boxes, 65_536)
        return TensorSpec(name=DETECTIONS, dtype="float32", shape=(limit, 6))
    if isinstance(bundle.manifest.task, TagTask):
        return TensorSpec(name=TAGS, dtype="float32", shape=(bundle.manifest.task.max_tags, 2))
    labels = len(bundle.manifest.labels)
    return TensorSpec(name=LOGITS, dtype="float32", shape=(labels,))
