"""The spectra that YAMNet takes: 64 mel bands of 25 ms, every 10 ms, their magnitudes' logarithm.

Hershey et al., "CNN Architectures for Large-Scale Audio Classification", ICASSP 2017, section 4,
with the figures of the network's authors (`params.py` of YAMNet): Hann window, FFT of 512, bands
from 125 to 7500 Hz on the HTK scale, log(magnitude + 0.001); 96 spectra are a *patch*.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Patches = NDArray[np.float32]

RATE: Final = 16_000


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """Lengths in samples, a patch and its hop in spectra. Raises ValueError when they make no
    sense."""

    rate: int = RATE
    window: int = 400
    hop: int = 160
    fft: int = 512
    bands: int = 64
    low_hz: float = 125.0
    high_hz: float = 7500.0
    offset: float = 1e-3
    patch: int = 96
    patch_hop: int = 48

    def __post_init__(self) -> None:
        if not 1 <= self.hop <= self.window <= self.fft or not 1 <= self.patch_hop <= self.patch:
            raise ValueError(f"{self}: hop, window and FFT, or patch and its hop, don't fit")
        if not 0 < self.low_hz < self.high_hz <= self.rate / 2 or self.bands < 1:
            raise ValueError(f"{self}: the bands don't fit")
        if not self.offset > 0:
            raise ValueError(f"{self}: the offset is not positive")

    @property
    def patch_samples(self) -> int:
        """How many samples one patch takes."""
        return (self.patch - 1) * self.hop + self.window

    @property
    def hop_samples(self) -> int:
        """How many samples lie between the beginnings of two patches."""
        return self.patch_hop * self.hop

    @property
    def seconds(self) -> float:
        """Of one patch."""
        return self.patch_samples / self.rate

    def patches(self, samples: Samples) -> Patches:
        """Patches (n, 1, patch, bands) of a whole sound (m,), at least one.

        Silence is added to the end so that the last patch is whole. Raises ValueError when it is
        not one row of finite floats.
        """
        stream = self.stream()
        return np.concatenate([stream.push(samples), stream.finish()])

    def stream(self) -> "PatchStream":
        """For a sound that comes in pieces: together its patches are those of the whole."""
        return PatchStream(self)

    def spectra(self, samples: Samples) -> NDArray[np.float32]:
        """Log-mel spectra (t, bands) of every whole window."""
        frames = sliding_window_view(samples.astype(np.float64), self.window)[:: self.hop]
        magnitudes = np.abs(np.fft.rfft(frames * self.hann, n=self.fft, axis=1))
        return np.log(magnitudes @ self.mel + self.offset).astype(np.float32)

    @property
    def block(self) -> int:
        """Spectra that are computed in one go: always as many, so that the products of matrices
        round alike in a stream and in a whole sound."""
        return gcd(self.patch, self.patch_hop)

    @cached_property
    def hann(self) -> NDArray[np.float64]:
        """The window, (window,)."""
        return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)

    @cached_property
    def mel(self) -> NDArray[np.float64]:
        """(fft / 2 + 1, bands): triangles that are straight on the mel scale."""
        bins = _mels(np.arange(self.fft // 2 + 1) * self.rate / self.fft)
        edges = np.linspace(_mels(self.low_hz), _mels(self.high_hz), self.bands + 2)
        low, centre, high = edges[:-2], edges[1:-1], edges[2:]
        rising = (bins[:, np.newaxis] - low) / (centre - low)
        falling = (high - bins[:, np.newaxis]) / (high - centre)
        weights = np.maximum(0, np.minimum(rising, falling))
        weights[0] = 0  # what is constant is no sound
        return np.asarray(weights, dtype=np.float64)


class PatchStream:
    """Patches of samples that come piece by piece."""

    def __init__(self, front: LogMel) -> None:
        self._front = front
        self._samples = np.zeros(0, dtype=np.float32)
        self._spectra = np.zeros((0, front.bands), dtype=np.float32)
        self._pushed = 0
        self._given = 0

    def __repr__(self) -> str:
        return f"<PatchStream {self._pushed} samples in, {self._given} patches out>"

    def push(self, samples: Samples) -> Patches:
        """Those patches (n, 1, patch, bands) that `samples` (m,) complete, often none.

        Raises ValueError when they are not one row of finite floats.
        """
        if samples.ndim != 1 or samples.dtype != np.float32 or not np.isfinite(samples).all():
            raise ValueError(f"{samples.dtype} samples of shape {samples.shape}, or not finite")
        self._pushed += samples.size
        return self._advance(samples)

    def finish(self) -> Patches:
        """The last patch, if there are samples that none of the others holds; silence fills it."""
        front = self._front
        whole = front.patch_samples + max(0, self._given - 1) * front.hop_samples
        if self._given and self._pushed <= whole:
            return np.zeros((0, 1, front.patch, front.bands), dtype=np.float32)
        end = front.patch_samples + self._given * front.hop_samples
        return self._advance(np.zeros(end - self._pushed, dtype=np.float32))

    def _advance(self, samples: Samples) -> Patches:
        front = self._front
        held = np.concatenate([self._samples, samples])
        step = front.block * front.hop
        count = (held.size - front.window + front.hop) // step if held.size >= front.window else 0
        parts = [
            front.spectra(held[at * step : (at + 1) * step - front.hop + front.window])
            for at in range(count)
        ]
        self._samples = held[count * step :]
        spectra = np.concatenate([self._spectra, *parts])
        ready = max(0, (spectra.shape[0] - front.patch) // front.patch_hop + 1)
        patches = np.zeros((ready, 1, front.patch, front.bands), dtype=np.float32)
        for at in range(ready):
            patches[at, 0] = spectra[at * front.patch_hop :][: front.patch]
        self._spectra = spectra[ready * front.patch_hop :]
        self._given += ready
        return patches


def _mels(hertz: "float | NDArray[np.float64]") -> "NDArray[np.float64]":
    """On the scale of the HTK Book, section 5.6."""
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))
