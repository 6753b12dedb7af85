"""Ways to send a sound as a sound: the samples themselves, FLAC, Opus; and its spectra.

Opus and FLAC come from the library `soundfile`, which Headtail does not need otherwise.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec import codec_for
from headtail_models.audio.log_mel import RATE
from headtail_models.entrance import Entrance, Frame
from headtail_models.rate.block import ranges
from headtail_models.rate.cut import Crossing, CutTensor
from headtail_models.rate.errors import RateError
from headtail_models.rate.method import Method, Sent, Whole
from headtail_models.rate.samples import Sample

Kind = Literal["flac", "opus"]
OPUS_KBITS: Final = (6, 8, 12, 16, 24, 32)
SPECTRA: Final = ("q8+zstd", "q4+zstd")
_LOWEST_KBITS, _HIGHEST_KBITS = 6, 256
"""Of the library's scale for one channel: compression 1 is the lowest rate, 0 the highest."""
_OGG_HEADER: Final = 27
_OGG_INTRODUCTION: Final = 2
"""Pages that hold no sound: identification and comments."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pcm:
    """The samples, 16 bits each."""

    whole: Whole
    entrance: Entrance
    family: str = "pcm"
    setting: str = "16 bits"
    cut: str = ""
    origin: str = ""
    codec_id: str = "pcm"

    def send(self, frame: Frame) -> Sent:
        tensor, _ = self.entrance.prepare(frame)
        return Sent(size_bytes=2 * frame.size, outputs=self.whole(tensor))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoundFile:
    """The clip in a sound codec, coded by itself. `kbits` a second, of Opus.

    Containers and headers do not count: a stream has them once.
    """

    kind: Kind
    whole: Whole
    entrance: Entrance
    kbits: int = 0
    cut: str = ""
    origin: str = ""

    @property
    def codec_id(self) -> str:
        return self.kind

    @property
    def family(self) -> str:
        return self.kind

    @property
    def setting(self) -> str:
        return f"{self.kbits} kbit/s" if self.kbits else "16 bits"

    def send(self, frame: Frame) -> Sent:
        library = soundfile()
        container, subtype = ("FLAC", "PCM_16") if self.kind == "flac" else ("OGG", "OPUS")
        span = _HIGHEST_KBITS - _LOWEST_KBITS
        level = 1.0 if self.kind == "flac" else 1 - (self.kbits - _LOWEST_KBITS) / span
        file = io.BytesIO()
        library.write(file, frame, RATE, format=container, subtype=subtype, compression_level=level)
        data = file.getvalue()
        heard, _ = library.read(io.BytesIO(data), dtype="float32")
        tensor, _ = self.entrance.prepare(_as_long(heard, frame.size))
        size = (flac_sound if self.kind == "flac" else ogg_sound)(data)
        return Sent(size_bytes=size, outputs=self.whole(tensor))


def soundfile() -> Any:
    """The library. Raises RateError without it."""
    try:
        return import_module("soundfile")
    except (ImportError, OSError) as missing:
        raise RateError(
            f"Opus and FLAC need soundfile: pip install soundfile ({missing})"
        ) from None


def versions() -> dict[str, str]:
    """Of what does the coding; empty without the library."""
    try:
        library = soundfile()
    except RateError:
        return {}
    return {"sndfile": str(library.__libsndfile_version__)}


def sound_methods(entrance: Entrance, whole: Whole, *, kinds: Sequence[Kind]) -> Iterator[Method]:
    """Every rival that sends a sound: the samples, and those codecs of `kinds`."""
    if "opus" in kinds:
        for kbits in OPUS_KBITS:
            yield SoundFile(kind="opus", kbits=kbits, whole=whole, entrance=entrance)
    if "flac" in kinds:
        yield SoundFile(kind="flac", whole=whole, entrance=entrance)
    yield Pcm(whole=whole, entrance=entrance)


def spectra_methods(
    entrance: Entrance, whole: Whole, samples: Iterable[Sample]
) -> Iterator[Method]:
    """The network's input itself, quantised; its range is found on `samples`."""
    crossing = Crossing("log-mel", head=lambda tensor: tensor, tail=whole, entrance=entrance)
    quantiser = ranges([crossing.cross(sample.frame) for sample in samples])
    for name in SPECTRA:
        yield CutTensor(
            crossing=crossing,
            codec=codec_for(name, quantiser=quantiser),
            family="log-mel",
            setting=name,
        )


def ogg_sound(data: bytes) -> int:
    """Bytes of the packets in an Ogg stream (RFC 3533, section 6) behind its introduction. Raises
    ValueError when it is none."""
    sizes = []
    at = 0
    while at < len(data):
        if data[at : at + 4] != b"OggS" or at + _OGG_HEADER > len(data):
            raise ValueError(f"no Ogg page at byte {at}")
        segments = data[at + _OGG_HEADER - 1]
        table = data[at + _OGG_HEADER : at + _OGG_HEADER + segments]
        sizes.append(sum(table))
        at += _OGG_HEADER + segments + sizes[-1]
    return sum(sizes[_OGG_INTRODUCTION:])


def flac_sound(data: bytes) -> int:
    """Bytes of a FLAC file (RFC 9639, section 8) behind its metadata. Raises ValueError when it is
    none."""
    if data[:4] != b"fLaC":
        raise ValueError("no FLAC file")
    at, last = 4, False
    while not last:
        if at + 4 > len(data):
            raise ValueError("the metadata of the FLAC file have no end")
        last = bool(data[at] & 0x80)
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    return len(data) - at


def _as_long(heard: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Cut, or filled up with silence, to `count` samples."""
    return np.pad(heard[:count], (0, max(0, count - heard.size)))
