"""Made-up scenes of sounds, one patch long: unlabelled, as varied as can be.

One or two clips at random places, loudness and speed, or none; noise of some colour; a tone or a
sweep now and then. What a network's features are trained on needs no names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

_SPEEDS: Final = (0.8, 1.25)
_CLIP_DB: Final = (-36.0, 0.0)
_NOISE_DB: Final = (-75.0, -15.0)
_TONE_DB: Final = (-50.0, -6.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenes:
    """Draws scenes of `length` samples at `rate` from `clips`, each (n,)."""

    clips: Sequence[Samples]
    length: int
    rate: int

    def draw(self, random: np.random.Generator) -> Samples:
        """One scene (length,), within -1..1."""
        scene = np.zeros(self.length)
        for _ in range(random.choice([0, 1, 2], p=[0.1, 0.65, 0.25])):
            if self.clips:
                self._add_clip(scene, random)
        if random.random() < 0.5:
            colour = random.choice([0.0, 0.5, 1.0])
            scene += noise(self.length, colour, random) * _loudness(_NOISE_DB, random)
        if random.random() < 0.15:
            scene += self._tone(random) * _loudness(_TONE_DB, random)
        return np.clip(scene, -1, 1).astype(np.float32)

    def _add_clip(self, scene: NDArray[np.float64], random: np.random.Generator) -> None:
        clip = self.clips[int(random.integers(len(self.clips)))]
        speed = random.uniform(*_SPEEDS) if random.random() < 0.5 else 1.0
        wanted = int(self.length * speed) + 2
        start = int(random.integers(max(1, clip.size - wanted + 1)))
        piece = clip[start : start + wanted].astype(np.float64)
        if piece.size < 2:
            return
        if speed != 1.0:
            places = np.arange(0, piece.size - 1, speed)
            piece = np.interp(places, np.arange(piece.size), piece)
        loudest = np.abs(piece).max(initial=1e-4)
        at = int(random.integers(max(1, self.length - piece.size + 1)))
        piece = piece[: self.length - at]
        scene[at : at + piece.size] += piece / loudest * _loudness(_CLIP_DB, random)

    def _tone(self, random: np.random.Generator) -> NDArray[np.float64]:
        """A sweep of some harmonics that fades in and out."""
        ends = np.exp(random.uniform(np.log(60), np.log(6000), 2))
        if random.random() < 0.6:
            ends[1] = ends[0]
        hertz = np.geomspace(ends[0], ends[1], self.length)
        phase = 2 * np.pi * np.cumsum(hertz) / self.rate
        tone = np.zeros(self.length)
        for harmonic in range(1, int(random.integers(1, 8)) + 1):
            inside = hertz * harmonic < self.rate / 2
            tone += inside * np.sin(harmonic * phase) / harmonic ** random.uniform(0.3, 2)
        begin, end = np.sort(random.integers(0, self.length, 2))
        ramp = np.interp(np.arange(self.length), [begin - 400, begin, end, end + 400], [0, 1, 1, 0])
        return np.asarray(tone * ramp / max(1.0, np.abs(tone).max()), dtype=np.float64)


def noise(length: int, colour: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Noise of mean square 1/9; its power falls with frequency to the power of 2 `colour`."""
    spectrum = np.fft.rfft(random.normal(size=length))
    spectrum /= np.maximum(1, np.arange(spectrum.size)) ** colour
    wave = np.fft.irfft(spectrum, length)
    return np.asarray(wave / (3 * np.sqrt(np.mean(wave**2)) + 1e-12), dtype=np.float64)


def _loudness(decibels: tuple[float, float], random: np.random.Generator) -> float:
    return float(10 ** (random.uniform(*decibels) / 20))
