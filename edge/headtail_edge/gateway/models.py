"""Which head belongs to which bundle, and which update its nodes are offered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from headtail_edge.gateway.config import ModelConfig
from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError
from headtail_fabric.wire import DType, TensorInfo
from headtail_models.bundle.cache import BundleCache
from headtail_models.bundle.manifest import ClassifyTask, Cut
from headtail_models.bundle.reader import Bundle, open_bundle
from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.errors import BlobError
from headtail_models.mcu.program import Output, Program, Role

_MAX_FILE_BYTES: Final = 16 * 2**20
_CRC_BYTES: Final = 4
_CLOSE: Final = 1e-3


class HeadFileError(ConfigError):
    """A head or an update can't be used. Export it again (`headtail export mcu`), and check that
    the configuration names the right file."""


class HeadMismatchError(ConfigError):
    """The head and the bundle do not belong together: what the head sends is not what the tail
    takes. Name the bundle and the cut that were made with this head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A signed head, as it is sent: `data` is the whole `.update` file."""

    release: int
    head: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """How a head's features go to the tail."""

    digest: bytes
    cut: str
    tensor: TensorInfo
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A head and what lies behind it; `crossing` is None for one that decides by itself."""

    name: str
    labels: tuple[str, ...]
    crossing: Crossing | None
    update: Update | None

    def label(self, answer: int) -> str:
        """A class's name; its number where none is known."""
        return self.labels[answer] if answer < len(self.labels) else str(answer)


def best_class(logits: Array) -> tuple[int, float]:
    """The likeliest class of a tail's logits (K,), and its probability (softmax)."""
    wide = np.nan_to_num(logits.astype(np.float64).reshape(-1))
    shares = np.exp(wide - wide.max())
    best = int(shares.argmax())
    return best, float(shares[best] / shares.sum())


class Models:
    """By the head that a node names."""

    def __init__(self, by_head: Mapping[int, Model]) -> None:
        self._by_head = dict(by_head)

    def of(self, head: int) -> Model | None:
        """None for a head that no model here has."""
        return self._by_head.get(head)

    def digests(self) -> tuple[bytes, ...]:
        """The bundles whose tails are needed."""
        crossings = (model.crossing for model in self._by_head.values())
        return tuple(dict.fromkeys(c.digest for c in crossings if c is not None))


def load_models(configs: Mapping[str, ModelConfig], cache: BundleCache) -> Models:
    """Raises HeadFileError, HeadMismatchError, BundleError."""
    by_head: dict[int, Model] = {}
    for name, config in configs.items():
        bundle = open_bundle(cache.find(config.bundle)) if config.bundle else None
        update, newest = _update(config.update) if config.update is not None else (None, None)
        programs = [_read_head(path) for path in config.heads]
        for program in [*programs, *([newest] if newest is not None else [])]:
            head = int.from_bytes(program.blob[-_CRC_BYTES:], "little")
            if head in by_head and by_head[head].name != name:
                raise HeadFileError(f"models {by_head[head].name} and {name} have the same head")
            by_head[head] = Model(
                name=name,
                labels=bundle.manifest.labels if bundle is not None else tuple(config.labels),
                crossing=_crossing(name, program, bundle, config.cut),
                update=update,
            )
    return Models(by_head)


def _read_head(path: Path) -> Program:
    return _program(_read(path), path)


def _program(blob: bytes, path: Path) -> Program:
    try:
        return read_blob(blob)
    except BlobError as error:
        raise HeadFileError(f"{path}: {error.message}", path=path) from None


def _update(path: Path) -> tuple[Update, Program]:
    data = _read(path)
    line, _, rest = data.partition(b"\n")
    blob = rest.partition(b"\n")[2]
    try:
        release = int(json.loads(line)["release"])
    except (ValueError, KeyError, TypeError):
        raise HeadFileError(f"{path} is not a signed update", path=path) from None
    program = _program(blob, path)
    head = int.from_bytes(blob[-_CRC_BYTES:], "little")
    return Update(release=release, head=head, data=data), program


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise HeadFileError(f"{path}: {error.strerror}", path=path) from None
    if len(data) > _MAX_FILE_BYTES:
        raise HeadFileError(f"{path} is larger than {_MAX_FILE_BYTES} bytes", path=path)
    return data


def _crossing(
    name: str, program: Program, bundle: Bundle | None, cut_name: str | None
) -> Crossing | None:
    sent = [output for output in program.outputs if output.role is Role.FEATURES]
    if not sent:
        return None
    if bundle is None or len(sent) > 1:
        raise HeadMismatchError(
            f"model {name}: the head sends {len(sent)} tensors"
            + ("" if bundle is not None else ", and no bundle is named")
        )
    if not isinstance(bundle.manifest.task, ClassifyTask):
        raise HeadMismatchError(f"model {name}: {bundle.name} does not classify")
    cut = bundle.cut(cut_name or bundle.manifest.default_cut)
    codec_id = f"q{sent[0].quantiser.bits}-nhwc"
    _check_tables(name, sent[0], bundle, cut, codec_id)
    return Crossing(
        digest=bundle.digest,
        cut=cut.name,
        tensor=TensorInfo(
            name=cut.tensor.name,
            dtype=DType.FLOAT32,
            shape=(1, *cut.tensor.shape),
            codec=codec_id,
            quantiser=codec_id,
        ),
        payload_bytes=sent[0].size,
    )


def _check_tables(name: str, output: Output, bundle: Bundle, cut: Cut, codec_id: str) -> None:
    """The tail must read the levels as the head means them."""
    shape, quantiser = output.shape, output.quantiser
    axes: set[tuple[int, ...]] = {(shape.c, shape.h, shape.w)}
    if shape.h == 1:
        axes.add((shape.c, shape.w))
    if shape.h == shape.w == 1:
        axes.add((shape.c,))
    if cut.tensor.shape not in axes:
        raise HeadMismatchError(
            f"model {name}: the head sends {shape}, cut {cut.name!r} of {bundle.name} takes "
            f"{cut.tensor.shape} (channels first)"
        )
    if codec_id not in cut.codecs or codec_id not in cut.quantisers:
        raise HeadMismatchError(
            f"model {name}: the head sends {codec_id}, cut {cut.name!r} has {', '.join(cut.codecs)}"
        )
    table = cut.quantisers[codec_id].quantiser()
    low = -quantiser.zero * quantiser.scale
    high = (quantiser.top - quantiser.zero) * quantiser.scale
    margin = _CLOSE * (high - low)
    if np.abs(table.low - low).max() > margin or np.abs(table.high - high).max() > margin:
        raise HeadMismatchError(
            f"model {name}: the head's levels stand for {low:.4g} to {high:.4g}, the table "
            f"{codec_id} at cut {cut.name!r} says otherwise"
        )
