"""What a bundle says about itself: `manifest.json`, schema 1.

The *digest* of a bundle is the SHA-256 of the manifest's bytes as they lie in the bundle; the
manifest names every other file with its size and SHA-256, so the digest covers all of it.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"

Hex256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
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


class TensorSpec(_Part, frozen=True, kw_only=True):
    """A tensor at a stage's border; `shape` without the batch axis."""

    name: Annotated[str, Meta(max_length=64)]
    dtype: Literal["float32", "uint8"]
    shape: tuple[Positive, ...]


class StageEntry(_Part, frozen=True, kw_only=True):
    """One ONNX file and what it costs; the batch axis is dynamic."""

    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    macs: Natural


class QuantiserTable(_Part, frozen=True, kw_only=True):
    """Per-channel ranges of the tensor that crosses a cut (`headtail_fabric.codec.Quantiser`)."""

    low: tuple[float, ...]
    high: tuple[float, ...]


class Measured(_Part, frozen=True, kw_only=True):
    """Accuracy and payload of one codec at one cut, on a split that nothing was chosen on.

    `value` is the metric named in `Manifest.metric`, `drop` what the full model had more.
    """

    codec: Annotated[str, Meta(max_length=32)]
    value: float
    drop: float
    mean_bytes: float


class Cut(_Part, frozen=True, kw_only=True):
    """A place where the network may be cut: one tensor crosses."""

    name: Identifier
    head: StageEntry
    tail: StageEntry
    codecs: tuple[str, ...]
    quantisers: dict[str, QuantiserTable] = {}
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
    width: Positive
    height: Positive
    fill: Annotated[int, Meta(ge=0, le=255)] = 127
    resize: Positive | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


class YoloScale(_Part, frozen=True, kw_only=True):
    """One output map of a YOLO detector: its tensor, stride and anchors (pixels, w and h)."""

    output: str
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

    output: str


class Provenance(_Part, frozen=True, kw_only=True):
    """Where the weights come from and under which licence they may be passed on."""

    source: str
    licence: str
    sha256: Hex256


class Manifest(_Part, frozen=True, kw_only=True):
    """All that both sides need to know."""

    schema: int
    name: Identifier
    version: Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+){0,3}$")]
    description: str = ""
    task: DetectTask | ClassifyTask
    labels: tuple[str, ...]
    preprocess: Preprocess
    full: StageEntry
    cuts: tuple[Cut, ...]
    default_cut: Identifier
    default_codec: str
    metric: str = ""
    metric_split: str = ""
    full_value: float | None = None
    provenance: tuple[Provenance, ...] = ()
    files: tuple[FileEntry, ...]

    def cut(self, name: str) -> Cut | None:
        """The cut of that name, or None."""
        return next((cut for cut in self.cuts if cut.name == name), None)


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as the bytes that go into a bundle."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
