"""The front end of a listening board: log-mel spectra in whole numbers, as levels of the head.

It approximates `audio.log_mel.LogMel`, which is what a network is trained on: within 26 dB of a
frame's loudest bin it is right to a level or two, and what is 43 dB below may be three off; fainter
bands drown in the rounding of 16 bits. All tables are made here, since a board's own sines differ
from ours in the last bit.

    samples (16 bits) -> shifted up as far as their loudest allows, windowed
                      -> FFT of real numbers as a complex one of half the length, halved each stage
                      -> magnitudes (integer square root) -> bands -> log2 by table -> levels

Shifting by frame is block floating point (Oppenheim and Schafer, "Discrete-Time Signal
Processing", 9.7); it is taken back as an addition behind the logarithm. Every intermediate value
stays below 2**30 in size, so 32-bit and 64-bit boards agree.
"""

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.audio.log_mel import LogMel
from headtail_models.mcu.errors import BlobError, FrontEndError
from headtail_models.mcu.fixed_point import Integers
from headtail_models.mcu.program import golden_input
from headtail_models.mcu.ranges import Levels, Quantiser

KIND: Final = 1
MAX_FFT: Final = 512
_HEADER: Final = struct.Struct("<BBHHHH2xIIiiB3x6HIII")
_LOG_STEPS: Final = 64
_LOG_BITS: Final = 11
"""Below the point of a base-2 logarithm."""
_PEAK: Final = 14
"""A frame's loudest sample is shifted to at most this many bits."""
_WINDOW_ONE: Final = 2**15 - 1
_TURN_BITS: Final = 14
_WEIGHT_ONE: Final = 255
_BOUND: Final = 2**30

Samples = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogMelFront:
    """The tables, as they lie in a blob; see `make_front` and `read_front`."""

    half: int
    window: Integers
    hop: int
    patch: int
    rate: int
    offset: int
    multiplier: int
    bias: int
    shift: int
    turns: Integers
    """cos and sin of 2 pi k / fft, (half, 2), with 14 bits below the point."""
    reversed_: Integers
    logarithms: Integers
    bands: Integers
    """First bin and number of bins of each, (bands, 2)."""
    weights: Integers
    """Of the bins of all bands one after another, 255 being one."""

    @property
    def patch_samples(self) -> int:
        """How many samples one patch takes."""
        return (self.patch - 1) * self.hop + self.window.size

    def patch_of(self, samples: Samples) -> Levels:
        """What the head reads of (patch_samples,): (patch, bands, 1)."""
        frames = np.lib.stride_tricks.sliding_window_view(samples, self.window.size)
        chosen = frames[: self.patch_samples - self.window.size + 1 : self.hop]
        return self.levels(chosen)[..., np.newaxis]

    def levels(self, frames: Samples) -> Levels:
        """Of each window of samples (n, window): levels (n, bands)."""
        values, exponents = self._shifted(frames.astype(np.int64))
        sums = self._bands(self._magnitudes(self._transform(values)))
        sums += (self.offset << (exponents + 1)) >> 1
        scaled = self._log2(sums) - (exponents << _LOG_BITS)
        found = (scaled * self.multiplier + self.bias) >> self.shift
        levels: Levels = np.clip(found, 0, 255).astype(np.uint8)
        return levels

    def _shifted(self, x: Integers) -> tuple[Integers, Integers]:
        """Windowed samples of up to 2**14, and by how many bits they were shifted, (n, 1)."""
        peak = np.abs(x).max(axis=1, keepdims=True)
        bits = np.where(peak > 0, np.floor(np.log2(np.maximum(peak, 1))).astype(np.int64) + 1, 0)
        exponents = np.where(bits > 0, np.maximum(_PEAK - bits, -1), 0)
        drop = 15 - exponents
        return (x * self.window + (1 << (drop - 1))) >> drop, exponents

    def _transform(self, values: Integers) -> tuple[Integers, Integers]:
        """(real, imaginary) of the FFT of pairs, over its length: (n, half)."""
        count, half = values.shape[0], self.half
        pairs = np.zeros((count, half, 2), dtype=np.int64)
        pairs.reshape(count, -1)[:, : values.shape[1]] = values
        ordered = np.empty_like(pairs)
        ordered[:, self.reversed_] = pairs
        re, im = ordered[..., 0].copy(), ordered[..., 1].copy()
        span = 1
        while span < half:
            cos, sin = self.turns[:: half // span][:span].T
            shape = (count, half // (2 * span), 2, span)
            r, i = re.reshape(shape), im.reshape(shape)
            ar, ai, br, bi = r[:, :, 0], i[:, :, 0], r[:, :, 1], i[:, :, 1]
            tr, ti = br * cos + bi * sin, bi * cos - br * sin
            parts = [
                _halved((a << _TURN_BITS) + s * t) for a, t in ((ar, tr), (ai, ti)) for s in (1, -1)
            ]
            re = np.stack(parts[:2], axis=2).reshape(count, half)
            im = np.stack(parts[2:], axis=2).reshape(count, half)
            span *= 2
        return re, im

    def _magnitudes(self, spectrum: tuple[Integers, Integers]) -> Integers:
        """Twice the magnitude of each bin of the real FFT, (n, half + 1)."""
        re, im = (np.concatenate([part, part[:, :1]], axis=1) for part in spectrum)
        mirrored_re, mirrored_im = re[:, ::-1], im[:, ::-1]
        even_re, even_im = re + mirrored_re, im - mirrored_im
        odd_re, odd_im = im + mirrored_im, mirrored_re - re
        # The turn by half a circle, which no table entry is.
        cos, sin = np.vstack([self.turns, [[-(1 << _TURN_BITS), 0]]]).T
        x = _halved((even_re << _TURN_BITS) + odd_re * cos + odd_im * sin)
        y = _halved((even_im << _TURN_BITS) + odd_im * cos - odd_re * sin)
        lengths: Integers = np.floor(np.sqrt((x * x + y * y) << 2)).astype(np.int64)
        return lengths

    def _bands(self, magnitudes: Integers) -> Integers:
        sums, at = [], 0
        for first, count in self.bands:
            weights = self.weights[at : at + count]
            sums.append(magnitudes[:, first : first + count] @ weights)
            at += count
        return np.stack(sums, axis=1)

    def _log2(self, values: Integers) -> Integers:
        """Straight between the entries of the table; of 0 as of 1."""
        values = np.maximum(values, 1)
        whole = np.floor(np.log2(values)).astype(np.int64)
        mantissa = (
            np.where(
                whole >= 15,
                values >> np.maximum(whole - 15, 0),
                values << np.maximum(15 - whole, 0),
            )
            - 2**15
        )
        step, rest = mantissa >> 9, mantissa & 511
        low, high = self.logarithms[step], self.logarithms[step + 1]
        found: Integers = (whole << _LOG_BITS) + ((low * 512 + (high - low) * rest + 4096) >> 13)
        return found


def make_front(way: LogMel, quantiser: Quantiser, *, seed: int = 1) -> bytes:
    """The section of a blob whose head reads logarithms by `quantiser`. Raises FrontEndError.

    header    56 B: geometry, factors, places of the tables, seed and CRC-32 of the golden levels
    window    u16 each, 15 bits below the point
    turns     i16 pairs, cos and sin of 2 pi k / fft, 14 bits below the point
    order     u8 each, the reversed order of a pair in the FFT
    log2      u16, 65 of them, from 1 to 2 in steps of 1/64, 15 bits below the point
    bands     u16 pairs, first bin and number of bins
    weights   u8 each
    """
    _check(way)
    half = way.fft // 2
    unit = half / (2 * _WEIGHT_ONE * 2**15)
    slope = math.log(2) / (quantiser.scale * 2**_LOG_BITS)
    shift = math.floor(13 - math.log2(slope))
    bias = round((quantiser.zero + math.log(unit) / quantiser.scale) * 2.0**shift)
    bias += 1 << (shift - 1) if 1 <= shift <= 28 else 0
    if not 1 <= shift <= 28 or abs(bias) >= _BOUND:
        raise FrontEndError(f"levels of {quantiser.scale:.3g} around {quantiser.zero}")
    angles = 2 * np.pi * np.arange(half) / way.fft
    turns = np.rint(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 2**_TURN_BITS)
    weights = np.rint(way.mel * _WEIGHT_ONE).astype(np.int64)
    spans = [np.flatnonzero(column) for column in weights.T]
    firsts = [
        (int(span[0]), int(span[-1] - span[0] + 1)) if span.size else (0, 0) for span in spans
    ]
    used = [weights[first : first + count, band] for band, (first, count) in enumerate(firsts)]
    offset = round(way.offset / unit)
    most = max(int(one.sum()) for one in used) * 2**15 + (offset << _PEAK)
    if most >= _BOUND:
        raise FrontEndError(f"sums up to {most:,}, {most - _BOUND:,} more than 30 bits hold")
    tables = (
        np.rint(way.hann * _WINDOW_ONE).astype("<u2").tobytes(),
        turns.astype("<i2").tobytes(),
        _reversed(half).astype("u1").tobytes(),
        np.rint(np.log2(1 + np.arange(_LOG_STEPS + 1) / _LOG_STEPS) * 2**15)
        .astype("<u2")
        .tobytes(),
        np.array(firsts).astype("<u2").tobytes(),
        np.concatenate(used).astype("u1").tobytes(),
    )
    places, body = [], b""
    for table in tables:
        places.append(_HEADER.size + len(body))
        body += table + bytes(-len(table) % 4)

    def section(crc: int) -> bytes:
        header = _HEADER.pack(
            KIND,
            half.bit_length() - 1,
            way.window,
            way.hop,
            way.patch,
            way.bands,
            way.rate,
            offset,
            round(slope * 2.0**shift),
            bias,
            shift,
            *places,
            seed,
            crc,
            _HEADER.size + len(body),
        )
        return header + body

    return section(golden_crc(read_front(section(0)), seed))


def read_front(section: bytes) -> LogMelFront:
    """Raises BlobError."""
    if len(section) < _HEADER.size or section[0] != KIND:
        raise BlobError("no front end for log-mel spectra")
    (_, log2, window, hop, patch, bands, rate, offset, multiplier, bias, shift, *rest) = (
        _HEADER.unpack_from(section)
    )
    *places, _, _, size = rest
    half = 1 << log2
    if half > MAX_FFT // 2 or window > 2 * half or size > len(section) or places[5] > size:
        raise BlobError(f"a front end of {size} bytes with an FFT of {2 * half}")

    def table(index: int, dtype: str, count: int) -> Integers:
        end = places[index] + np.dtype(dtype).itemsize * count
        if end > size:
            raise BlobError(f"a table up to {end} of {size} bytes")
        return np.frombuffer(section, dtype, count, places[index]).astype(np.int64)

    spans = table(4, "<u2", 2 * bands).reshape(-1, 2)
    return LogMelFront(
        half=half,
        window=table(0, "<u2", window),
        hop=hop,
        patch=patch,
        rate=rate,
        offset=offset,
        multiplier=multiplier,
        bias=bias,
        shift=shift,
        turns=table(1, "<i2", 2 * half).reshape(-1, 2),
        reversed_=table(2, "u1", half),
        logarithms=table(3, "<u2", _LOG_STEPS + 1),
        bands=spans,
        weights=table(5, "u1", int(spans[:, 1].sum())),
    )


def golden_crc(front: LogMelFront, seed: int) -> int:
    """Of the levels of two windows of noise that a board makes as well, one loud and one faint."""
    size = front.window.size
    loud = np.frombuffer(golden_input(seed, 2 * size), dtype="<i2")
    frames = np.stack([loud, loud >> 9])
    return zlib.crc32(front.levels(frames).tobytes())


def _check(way: LogMel) -> None:
    if way.fft & (way.fft - 1) or not 16 <= way.fft <= MAX_FFT:
        over = way.fft - MAX_FFT
        raise FrontEndError(
            f"an FFT of {way.fft}, {over} more than {MAX_FFT}"
            if over > 0
            else f"an FFT of {way.fft}, which is no power of two from 16 to {MAX_FFT}"
        )


def _reversed(half: int) -> NDArray[np.int64]:
    bits = half.bit_length() - 1
    order = [int(f"{number:0{bits}b}"[::-1], 2) for number in range(half)]
    return np.array(order, dtype=np.int64)


def _halved(values: Any) -> Integers:
    """What has 14 bits below the point, as whole numbers, over two."""
    result: Integers = (values + (1 << _TURN_BITS)) >> (_TURN_BITS + 1)
    return result
