"""WAV files: RIFF with PCM or float samples (Multimedia Programming Interface and Data
Specifications 1.0, 1991; WAVE_FORMAT_EXTENSIBLE, 2001).

Read here and not by the standard library's `wave`, which refuses float samples, and before
Python 3.12 also the extensible form that recorders write for 24 bits and more.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.audio.errors import EmptySoundError, NotWavError, TruncatedSoundError

Samples = NDArray[np.float32]

MAX_BYTES: Final = 1 << 30
MAX_CHANNELS: Final = 64
RATES: Final = range(1000, 384_001)
_PCM: Final = 1
_FLOAT: Final = 3
_EXTENSIBLE: Final = 0xFFFE
_OPEN_END: Final = 0xFFFFFFFF
"""The size that a writer to a pipe gives: it can't know."""
_CHUNK: Final = struct.Struct("<4sI")
_FORMAT: Final = struct.Struct("<HHIIHH")
_SUBFORMAT_AT: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sound:
    """`samples` (n,) float32 within -1..1, channels averaged; `rate` a second."""

    samples: Samples
    rate: int

    @property
    def seconds(self) -> float:
        return self.samples.size / self.rate

    def __repr__(self) -> str:
        return f"<Sound {self.seconds:.2f} s at {self.rate} Hz>"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    kind: int
    channels: int
    rate: int
    bits: int


def read_wav(path: Path) -> Sound:
    """The sound of a WAV file. Raises what `parse_wav` does, and NotWavError for a file that
    can't be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise NotWavError(f"{path}: {size} bytes, at most {MAX_BYTES} are read")
        data = path.read_bytes()
    except OSError as error:
        raise NotWavError(f"{path}: {error.strerror}") from None
    return parse_wav(data, name=str(path))


def parse_wav(data: bytes, *, name: str = "sound") -> Sound:
    """The sound of a WAV file's bytes; `name` is for messages.

    Raises NotWavError, TruncatedSoundError, EmptySoundError.
    """
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise NotWavError(f"{name} is not a WAV file")
    form: _Format | None = None
    for kind, body in _chunks(data, name):
        if kind == b"fmt ":
            form = _format(body, name)
        elif kind == b"data":
            if form is None:
                raise NotWavError(f"{name}: its samples come before their format")
            return Sound(samples=_samples(body, form, name), rate=form.rate)
    raise TruncatedSoundError(f"{name} ends before its samples begin")


def _chunks(data: bytes, name: str) -> Iterator[tuple[bytes, memoryview]]:
    at, view = 12, memoryview(data)
    while at + _CHUNK.size <= len(data):
        kind, size = _CHUNK.unpack_from(data, at)
        at += _CHUNK.size
        if kind == b"data" and size == _OPEN_END:
            size = len(data) - at
        if at + size > len(data):
            raise TruncatedSoundError(
                f"{name}: {size} bytes of {kind.decode('ascii', 'replace')!r} are promised, "
                f"{len(data) - at} are there"
            )
        yield kind, view[at : at + size]
        at += size + size % 2


def _format(body: memoryview, name: str) -> _Format:
    if len(body) < _FORMAT.size:
        raise NotWavError(f"{name}: a format of {len(body)} bytes")
    kind, channels, rate, _, _, bits = _FORMAT.unpack_from(body)
    if kind == _EXTENSIBLE and len(body) >= _SUBFORMAT_AT + 2:
        (kind,) = struct.unpack_from("<H", body, _SUBFORMAT_AT)
    if (kind, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32)}:
        raise NotWavError(f"{name}: samples of kind {kind} with {bits} bits")
    if not 1 <= channels <= MAX_CHANNELS or rate not in RATES:
        raise NotWavError(f"{name}: {channels} channels at {rate} Hz")
    return _Format(kind=kind, channels=channels, rate=rate, bits=bits)


def _samples(body: memoryview, form: _Format, name: str) -> Samples:
    frame = form.channels * form.bits // 8
    if len(body) % frame:
        raise TruncatedSoundError(f"{name}: {len(body)} bytes are not whole frames of {frame}")
    if not len(body):
        raise EmptySoundError(f"{name} holds no sample")
    values = _decoded(body, form)
    if not np.isfinite(values).all():
        raise NotWavError(f"{name}: some samples are not numbers")
    frames = values.reshape(-1, form.channels)
    return np.ascontiguousarray(frames.mean(axis=1, dtype=np.float64).astype(np.float32))


def _decoded(body: memoryview, form: _Format) -> Samples:
    if form.kind == _FLOAT:
        # A sample beyond any loudness would become infinite in the spectra.
        values = np.frombuffer(body, dtype="<f4").astype(np.float32)
        return np.asarray(np.clip(values, -64, 64), dtype=np.float32)
    if form.bits == 8:
        return _scaled(np.frombuffer(body, dtype=np.uint8).astype(np.int16) - 128, 8)
    if form.bits == 24:
        wide = np.zeros((len(body) // 3, 4), dtype=np.uint8)
        wide[:, 1:] = np.frombuffer(body, dtype=np.uint8).reshape(-1, 3)
        return _scaled(wide.view("<i4")[:, 0], 32)
    return _scaled(np.frombuffer(body, dtype=f"<i{form.bits // 8}"), form.bits)


def _scaled(values: NDArray[Any], bits: int) -> Samples:
    scaled: Samples = (values / 2.0 ** (bits - 1)).astype(np.float32)
    return scaled
