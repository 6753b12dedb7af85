"""What a bundle says about itself: `manifest.json`, schema 1.

The *digest* of a bundle is the SHA-256 of the manifest's bytes as they lie in the bundle; the
manifest names every other file with its size and SHA-256, so the digest covers all of it. Only
the detached signature, which is about the manifest, lies outside.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from headtail_fabric.codec import Quantiser
from headtail_models.bundle.errors import FutureSchemaError, InvalidManifestError
from headtail_models.bundle.preprocess import (
    LogMel,
    Preparation,
    Preprocess,
    Signal,
    decode_preparation,
)
from headtail_models.exits.criteria import Criterion
from headtail_models.tensor import Line, TensorSpec, Word

__all__ = [
    "INPUT",
    "MANIFEST",
    "SCHEMA",
    "SIGNATURE",
    "ClassifyTask",
    "Coder",
    "Cut",
    "DetectTask",
    "Exit",
    "FileEntry",
    "Filter",
    "Gate",
    "LogMel",
    "Manifest",
    "Measured",
    "MeasuredPicture",
    "OperatingPoint",
    "Preparation",
    "Preprocess",
    "Provenance",
    "QuantiserTable",
    "Segment",
    "Signal",
    "StageEntry",
    "TagTask",
    "TensorSpec",
    "YoloScale",
    "decode_manifest",
    "encode_manifest",
]

SCHEMA: Final = 1
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
INPUT: Final = "input"
"""On the wire, in place of a cut's name: the picture itself crosses."""
MAX_TAGS: Final = 100

Hex256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Path = Annotated[str, Meta(min_length=1, max_length=200)]
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Threshold = Annotated[float, Meta(ge=0, le=2)]
Temperature = Annotated[float, Meta(gt=0, le=1000)]
CoderId = Annotated[str, Meta(pattern=r"^rans(-[a-z0-9]{1,16})?\Z")]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class FileEntry(_Part, frozen=True, kw_only=True):
    """One file of the bundle, beside the manifest and its signature."""

    path: Path
    size_bytes: Natural
    sha256: Hex256


class StageEntry(_Part, frozen=True, kw_only=True):
    """One ONNX file and what it costs; the batch axis is dynamic."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    macs: Natural


class QuantiserTable(_Part, frozen=True, kw_only=True):
    """Per-channel ranges of the tensor that crosses a cut, as numbers."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def quantiser(self) -> Quantiser:
        """The table as the codecs take it. Raises ValueError when it makes no sense."""
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is refused
            low, high = (np.array(ends, dtype=np.float32) for ends in (self.low, self.high))
        return Quantiser(low, high)


class Coder(_Part, frozen=True, kw_only=True):
    """An entropy-coded codec (`headtail_fabric.rans`): its coding model is a file of the bundle.

    Either `steps` or `bits`. With `steps`, one a channel or one for all, a level is `x / step`,
    rounded. With `bits` (2 to 8) levels are those of the quantiser table that the cut has under
    the coder's own id.
    """

    file: Path
    steps: tuple[float, ...] = ()
    bits: Annotated[int, Meta(ge=2, le=8)] | None = None

    def scales(self, channels: int) -> NDArray[np.float32]:
        """`steps` of each channel, (channels,). Raises ValueError when they make no sense."""
        if len(self.steps) not in (1, channels):
            raise ValueError(f"{len(self.steps)} steps for {channels} channels")
        with np.errstate(over="ignore", under="ignore"):
            steps = np.array(self.steps, dtype=np.float32)
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise ValueError("steps must be finite and positive")
        return np.broadcast_to(steps, (channels,)).copy()


class OperatingPoint(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """How eager an exit is, as calibrated: frames at least as sure as `threshold` leave.

    Confidence is that of `exits.criteria`, from 0 to 1; a threshold above 1 closes the exit.
    `coverage`: share of all frames that left here. `drop`: accuracy that the whole network had
    more, on those frames. `by_class`: a threshold for each class that the exit may answer, at which
    each leaves as often as all do; empty where none were calibrated (`exits.policy`).
    """

    name: Identifier
    threshold: Threshold
    coverage: Share
    drop: float
    by_class: Annotated[tuple[Threshold, ...], Meta(max_length=10_000)] = ()


class _Gate(_Part, frozen=True, kw_only=True):
    """A place on the way to the cut where a frame may end.

    `trunk` leads from what the gate before left, or the network's input, to the tensor that the
    gate looks at and leaves behind; None where that is the same tensor. `branch` turns it into
    logits, which are divided by `temperature`.
    """

    name: Identifier
    trunk: StageEntry | None = None
    branch: StageEntry
    temperature: Temperature = 1.0

    @property
    def logits(self) -> int:
        """How many the branch gives."""
        return self.branch.outputs[0].shape[0]

    @property
    def macs(self) -> int:
        """Of trunk and branch."""
        return self.branch.macs + (self.trunk.macs if self.trunk is not None else 0)


class Exit(_Gate, frozen=True, kw_only=True, tag="exit"):
    """A frame that is sure enough is answered here.

    The logits stand for `classes`, indexes of the bundle's labels; with none for all labels in
    their order. With `goes_on` there is one more logit, the last, for all that the exit can't
    answer: a frame for which it is the largest does not leave. `points` from the most eager to the
    least; all exits of a cut have the same ones.

    At a classifier it gives what the whole network would. At a tagger, where labels hold each for
    itself, it still chooses one: it tells the single label that the frame is about, with its
    probability as the score, and no other tags. A point's `drop` is then the share of the frames
    that left whose label is not the best tag of the whole network.
    """

    criterion: Criterion
    classes: tuple[Natural, ...] = ()
    goes_on: bool = False
    points: Annotated[tuple[OperatingPoint, ...], Meta(max_length=64)]
    default_point: Identifier

    def point(self, name: str) -> OperatingPoint | None:
        """The operating point of that name, or None."""
        return next((point for point in self.points if point.name == name), None)


class Filter(_Gate, frozen=True, kw_only=True, tag="filter"):
    """A frame that holds nothing of interest ends here.

    Two logits, nothing and something; below `threshold` of the probability of something the frame
    is filtered. `recall`: share of the frames with something in them that pass, on calibration
    data; `dropped`: share of all frames that don't.
    """

    threshold: Share
    recall: Share
    dropped: Share | None = None


Gate = Exit | Filter


class Measured(_Part, frozen=True, kw_only=True):
    """Accuracy and payload of one codec at one cut, on a split that nothing was chosen on.

    `value` is the metric named in `Manifest.metric`, `drop` what the full model had more.
    """

    codec: Word
    value: float
    drop: float
    mean_bytes: float


class MeasuredPicture(_Part, frozen=True, kw_only=True):
    """The same of the picture itself as a file of that codec and quality, the whole network behind
    it."""

    codec: Literal["jpeg", "webp"]
    quality: Annotated[int, Meta(ge=1, le=100)]
    value: float
    drop: float
    mean_bytes: float


class Segment(_Part, frozen=True, kw_only=True):
    """The beginning of a tail, up to the tensor that crosses at another cut, `until`.

    That cut's tail is the rest of it, so that frames of both cuts may share the rest.
    """

    until: Identifier
    stage: StageEntry


class Cut(_Part, frozen=True, kw_only=True):
    """A place where the network may be cut: one tensor crosses.

        input -> gate -> gate -> head -> tensor -> codec -> ... -> tail -> outputs

    The head begins at what the last gate left: what a gate ends is not computed any further.
    """

    name: Identifier
    gates: Annotated[tuple[Gate, ...], Meta(max_length=16)] = ()
    head: StageEntry
    tail: StageEntry
    segment: Segment | None = None
    """None where the tail meets no other cut's."""
    codecs: tuple[Word, ...]
    quantisers: dict[Word, QuantiserTable] = {}
    """Quantiser tables by base codec id (`q8`, `q4`, that of a coder)."""
    coders: dict[CoderId, Coder] = {}
    """Entropy-coded codecs by id: `rans`, `rans-coarse`."""
    measured: tuple[Measured, ...] = ()

    @property
    def tensor(self) -> TensorSpec:
        """The tensor that crosses."""
        return self.head.outputs[0]

    @property
    def device_macs(self) -> int:
        """What a frame costs that passes every gate and crosses."""
        return sum(gate.macs for gate in self.gates) + self.head.macs

    def exits(self) -> tuple[Exit, ...]:
        """The gates that are exits."""
        return tuple(gate for gate in self.gates if isinstance(gate, Exit))

    def stages(self) -> Iterator[StageEntry]:
        """In the order in which a frame meets them."""
        for gate in self.gates:
            if gate.trunk is not None:
                yield gate.trunk
            yield gate.branch
        yield from (self.head, self.tail)
        if self.segment is not None:
            yield self.segment.stage


class YoloScale(_Part, frozen=True, kw_only=True):
    """One output map of a YOLO detector: its tensor, stride and anchors (pixels, w and h)."""

    output: Word
    stride: Positive
    anchors: tuple[tuple[float, float], ...]


class DetectTask(_Part, frozen=True, kw_only=True, tag="detect"):
    """Boxes: decode the maps, keep scores >= `threshold`, per-class NMS at IoU `nms_iou`."""

    scales: tuple[YoloScale, ...]
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.25
    nms_iou: Annotated[float, Meta(gt=0, le=1)] = 0.45
    max_boxes: Positive = 300


class ClassifyTask(_Part, frozen=True, kw_only=True, tag="classify"):
    """Class scores: the output tensor holds one logit a label."""

    output: Word


class TagTask(_Part, frozen=True, kw_only=True, tag="tag"):
    """Tags: the output tensor holds one logit a label, each label true or not for itself.

    The score is the logistic function of the logit; of those with at least `threshold` the best
    `max_tags` are told.
    """

    output: Word
    threshold: Share = 0.1
    max_tags: Annotated[int, Meta(ge=1, le=MAX_TAGS)] = 10


class Provenance(_Part, frozen=True, kw_only=True):
    """Where the weights come from and under which licence they may be passed on."""

    source: Line
    licence: Line
    sha256: Hex256


class Manifest(_Part, frozen=True, kw_only=True):
    """All that both sides need to know."""

    schema: int
    name: Identifier
    version: Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,3}\Z")]
    description: Line = ""
    task: DetectTask | ClassifyTask | TagTask
    labels: tuple[Line, ...]
    preprocess: Preparation
    full: StageEntry
    cuts: tuple[Cut, ...]
    default_cut: Identifier
    default_codec: Word
    metric: Line = ""
    metric_split: Line = ""
    full_value: float | None = None
    pictures: Annotated[tuple[MeasuredPicture, ...], Meta(max_length=64)] = ()
    """What sending the picture costs, on the same split."""
    provenance: tuple[Provenance, ...] = ()
    files: tuple[FileEntry, ...]

    def cut(self, name: str) -> Cut | None:
        """The cut of that name, or None."""
        return next((cut for cut in self.cuts if cut.name == name), None)

    def stages(self) -> Iterator[StageEntry]:
        """The full model, then those of each cut."""
        yield self.full
        for cut in self.cuts:
            yield from cut.stages()


class _SchemaOnly(msgspec.Struct):
    schema: int


_decoder: Final = msgspec.json.Decoder(Manifest, dec_hook=decode_preparation)
_schema_decoder: Final = msgspec.json.Decoder(_SchemaOnly)


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as the bytes that go into a bundle."""
    content = msgspec.to_builtins(manifest)
    # As it was before there were any: digests must stay.
    if not manifest.pictures:
        del content["pictures"]
    for cut in content["cuts"]:
        if cut["segment"] is None:
            del cut["segment"]
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """The manifest of those bytes, with every field of the right type and within its limits.

    Whether its parts fit each other is another question (`check_consistency`). Raises
    FutureSchemaError or InvalidManifestError, whatever comes.
    """
    try:
        schema = _schema_decoder.decode(data).schema
        if schema > SCHEMA:
            raise FutureSchemaError(f"schema {schema}, this Headtail reads {SCHEMA}", schema=schema)
        if schema < SCHEMA:
            raise InvalidManifestError(f"schema {schema} never existed", schema=schema)
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidManifestError(f"{MANIFEST}: {error}") from None
