"""Spoken digits by speakers: who is trained on is never measured on.

The archive is the Free Spoken Digit Dataset's (Z. Jackson et al., CC BY-SA 4.0): WAV files at
8 kHz called `{digit}_{speaker}_{index}.wav`. Its own split shares the speakers; ours does not.
"""

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.audio.log_mel import LogMel, Patches, Samples
from headtail_models.audio.resample import resample
from headtail_models.audio.wav import MAX_BYTES, parse_wav
from headtail_models.training.errors import TrainingDataError

FILE: Final = "spoken-digits.tar"
LABELS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPEAKERS: Final = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
"""In the order of the alphabet, as the splits are: four to train on, then one, then one."""
RATE: Final = 8000
FRONT: Final = LogMel(
    rate=RATE,
    window=240,
    hop=160,
    fft=256,
    bands=10,
    low_hz=60.0,
    high_hz=3800.0,
    offset=0.01,
    patch=49,
    patch_hop=25,
)
"""30 ms every 20 ms, 49 of them, 10 bands: the geometry of MLPerf Tiny's keyword spotting."""

_SPEEDS: Final = (6800, 7200, 7600, 8000, 8400, 8800, 9200)
"""Rates that a sound is taken to be recorded with; other throats, and other tempos."""
_GAIN_DB: Final = (-15.0, 6.0)
_NOISE_DB: Final = (-80.0, -38.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Utterance:
    """`samples` (n,) float32 at 8 kHz."""

    digit: int
    speaker: str
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clips:
    """`samples` (N, 7920) as a microphone's converter has them, and what is said, (N,)."""

    samples: NDArray[np.int16]
    labels: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spoken:
    """Patches (N, 1, 49, 10) and their digits (N,)."""

    patches: Patches
    digits: NDArray[np.int64]


def read_digits(archive: Path, speakers: Sequence[str]) -> list[Utterance]:
    """What `speakers` say. Raises TrainingDataError, and SoundError for a file that is no WAV."""
    found = []
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                name = PurePosixPath(entry.name)
                parts = name.stem.split("_")
                if not entry.isfile() or name.suffix != ".wav" or len(parts) != 3:
                    continue
                if parts[1] not in speakers or entry.size > MAX_BYTES:
                    continue
                file = tar.extractfile(entry)
                assert file is not None
                sound = parse_wav(file.read(), name=name.name)
                samples = resample(sound.samples, sound.rate, RATE)
                found.append(Utterance(digit=int(parts[0]), speaker=parts[1], samples=samples))
    except (tarfile.TarError, OSError, ValueError) as error:
        raise TrainingDataError(f"{archive}: {error}") from None
    if not found:
        raise TrainingDataError(f"{archive}: nothing said by {', '.join(speakers)}")
    return found


def centred(utterances: Sequence[Utterance]) -> Clips:
    """Each as it is, in the middle of a patch."""
    samples = np.stack([converted(clip_of(one.samples, place=0.5)) for one in utterances])
    return Clips(samples=samples, labels=_digits(utterances))


def spectra(samples: NDArray[np.int16]) -> Patches:
    """As the network takes clips (N, 7920): (N, 1, 49, 10)."""
    return np.concatenate([FRONT.patches((one / 32768).astype(np.float32)) for one in samples])


def varied(utterances: Sequence[Utterance], *, times: int, seed: int) -> Spoken:
    """Each `times` over: at another speed, loudness and place, with some noise."""
    random = np.random.default_rng(seed)
    clips = [converted(_varied(one.samples, random)) for _ in range(times) for one in utterances]
    digits = np.tile(_digits(utterances), times)
    return Spoken(patches=spectra(np.stack(clips)), digits=digits)


def clip_of(samples: Samples, *, place: float) -> Samples:
    """As many samples as a patch takes: what is longer loses both ends alike, what is shorter
    gets silence, all of it behind (`place` 0) to all of it before (1)."""
    length = FRONT.patch_samples
    cut = samples[max(0, samples.size - length) // 2 :][:length]
    clip = np.zeros(length, dtype=np.float32)
    start = round((length - cut.size) * place)
    clip[start : start + cut.size] = cut
    return clip


def converted(clip: Samples) -> NDArray[np.int16]:
    """In the whole numbers of a converter of 16 bits."""
    return np.clip(np.rint(clip * 32768), -32768, 32767).astype(np.int16)


def _varied(samples: Samples, random: np.random.Generator) -> Samples:
    spoken = resample(samples, int(random.choice(_SPEEDS)), RATE)
    clip = clip_of(spoken, place=random.uniform(0, 1)) * _factor(random.uniform(*_GAIN_DB))
    noise = random.standard_normal(clip.size)
    # Between white and brown, as rooms are.
    noise = np.convolve(noise, np.exp(-random.uniform(0.1, 3.0) * np.arange(16)), mode="same")
    noise *= _factor(random.uniform(*_NOISE_DB)) / noise.std()
    return (clip + noise).astype(np.float32)


def _factor(decibel: float) -> float:
    return float(10 ** (decibel / 20))


def _digits(utterances: Sequence[Utterance]) -> NDArray[np.int64]:
    return np.array([one.digit for one in utterances], dtype=np.int64)
