"""What is kept of a frame: all that its request and its answer need, but not the picture."""

from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta

from headtail_device.head import Encoded
from headtail_device.placement import Remote
from headtail_device.source.frame import Frame
from headtail_device.spool.errors import DamagedEntryError
from headtail_device.spool.log import LEVELS
from headtail_fabric.wire import MAX_TENSOR_BYTES, Digest, Name, Tensors
from headtail_models.bundle.manifest import Exit
from headtail_models.task import Place

_VERSION: Final = 1
Payload = Annotated[bytes, Meta(max_length=MAX_TENSOR_BYTES)]


class SpoolEntry(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """`captured_unix`: the calendar's time, in seconds since 1970, for the clock of frames does not
    outlive the machine's restart. `level`: 3 for what the device itself knows least of."""

    version: Annotated[int, Meta(ge=_VERSION, le=_VERSION)] = _VERSION
    index: Annotated[int, Meta(ge=0)]
    origin: str
    captured_unix: float
    bundle: Digest
    cut: Name
    codec: str
    tensors: Tensors
    payloads: tuple[Payload, ...]
    geometry: Place
    head_s: float
    level: Annotated[int, Meta(ge=0, lt=LEVELS)]

    @classmethod
    def of(
        cls, frame: Frame, way: Remote, encoded: Encoded, *, bundle: bytes, captured_unix: float
    ) -> Self:
        """The entry for a frame whose head has run."""
        return cls(
            index=frame.index,
            origin=frame.origin,
            captured_unix=captured_unix,
            bundle=bundle,
            cut=way.cut,
            codec=way.codec,
            tensors=encoded.tensors,
            payloads=tuple(bytes(payload) for payload in encoded.payloads),
            geometry=encoded.geometry,
            head_s=encoded.head_s,
            level=_level(encoded),
        )

    @property
    def payload_bytes(self) -> int:
        return sum(len(payload) for payload in self.payloads)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SpoolEntry)


def to_bytes(entry: SpoolEntry) -> bytes:
    """The body of the entry's record."""
    return _encoder.encode(entry)


def from_bytes(body: bytes) -> SpoolEntry:
    """Raises DamagedEntryError."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise DamagedEntryError(f"a spooled frame makes no sense: {error}") from None


def _level(encoded: Encoded) -> int:
    """By what the last exit said: a frame that it was nearly sure of is the first to do without the
    edge. What no exit has seen is worth most."""
    sure = [one.confidence for one in encoded.verdicts if isinstance(one.gate, Exit)]
    if not sure or not 0 <= sure[-1] <= 1:
        return LEVELS - 1
    return LEVELS - 1 - min(LEVELS - 1, int(sure[-1] * LEVELS))
