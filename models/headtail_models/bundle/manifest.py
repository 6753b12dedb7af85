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

from headtail_fabric.codec import Quantiser
from headtail_models.bundle.errors import FutureSchemaError, InvalidManifestError
from headtail_models.tensor import Dim, Line, TensorSpec, Word

__all__ = [
    "INPUT",
    "MANIFEST",
    "SCHEMA",
    "SIGNATURE",
    "ClassifyTask",
    "Cut",
    "DetectTask",
    "FileEntry",
    "Manifest",
    "Measured",
    "Preprocess",
    "Provenance",
    "QuantiserTable",
    "StageEntry",
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

Hex256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Path = Annotated[str, Meta(min_length=1, max_length=200)]
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]


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


class Measured(_Part, frozen=True, kw_only=True):
    """Accuracy and payload of one codec at one cut, on a split that nothing was chosen on.

    `value` is the metric named in `Manifest.metric`, `drop` what the full model had more.
    """

    codec: Word
    value: float
    drop: float
    mean_bytes: float


class Cut(_Part, frozen=True, kw_only=True):
    """A place where the network may be cut: one tensor crosses."""

    name: Identifier
    head: StageEntry
    tail: StageEntry
    codecs: tuple[Word, ...]
    quantisers: dict[Word, QuantiserTable] = {}
    """Quantiser tables by base codec id (`q8`, `q4`)."""
    measured: tuple[Measured, ...] = ()

    @property
    def tensor(self) -> TensorSpec:
        """The tensor that crosses."""
        return self.head.outputs[0]


class Preprocess(_Part, frozen=True, kw_only=True):
    """How a picture becomes the network's input.

    `letterbox`: fit into `width` x `height`, keep the aspect ratio, fill with `fill`, RGB / 255,
    N x C x H x W. `centre-crop`: shorter side to `resize`, crop, normalise with `mean`, `std`.
    """

    kind: Literal["letterbox", "centre-crop"]
    width: Dim
    height: Dim
    fill: Annotated[int, Meta(ge=0, le=255)] = 127
    resize: Dim | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


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
    task: DetectTask | ClassifyTask
    labels: tuple[Line, ...]
    preprocess: Preprocess
    full: StageEntry
    cuts: tuple[Cut, ...]
    default_cut: Identifier
    default_codec: Word
    metric: Line = ""
    metric_split: Line = ""
    full_value: float | None = None
    provenance: tuple[Provenance, ...] = ()
    files: tuple[FileEntry, ...]

    def cut(self, name: str) -> Cut | None:
        """The cut of that name, or None."""
        return next((cut for cut in self.cuts if cut.name == name), None)

    def stages(self) -> Iterator[StageEntry]:
        """The full model, then head and tail of each cut."""
        yield self.full
        for cut in self.cuts:
            yield from (cut.head, cut.tail)


class _SchemaOnly(msgspec.Struct):
    schema: int


_decoder: Final = msgspec.json.Decoder(Manifest)
_schema_decoder: Final = msgspec.json.Decoder(_SchemaOnly)


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as the bytes that go into a bundle."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


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
