"""Sounds to train on and to measure with: WAV files in a folder, or in a tar archive.

A clip belongs to one split for ever, by its name alone, so that what was trained on is never
measured on, whatever else lies in the folder.
"""

import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from headtail_models.audio.errors import SoundError
from headtail_models.audio.log_mel import RATE
from headtail_models.audio.resample import resample
from headtail_models.audio.wav import MAX_BYTES, Sound, parse_wav, read_wav

Split = Literal["train", "calibration", "test"]

_TENTHS: Final = 10


class ClipsError(SoundError):
    """The sounds can't be read. Name a folder of WAV files, or an archive of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """`samples` (n,) float32 at 16 kHz."""

    name: str
    samples: NDArray[np.float32]


def split_of(name: str) -> Split:
    """Eight tenths to train on, one to choose on, one to measure on."""
    place = zlib.crc32(name.encode()) % _TENTHS
    return "test" if place == 0 else "calibration" if place == 1 else "train"


def digit_split(name: str) -> Split:
    """Of the Free Spoken Digit Dataset, `{digit}_{speaker}_{index}.wav`: indexes 0 to 4 are its
    authors' test split; 5 to 9 are kept to choose on."""
    index = int(PurePosixPath(name).stem.rpartition("_")[2])
    return "test" if index < 5 else "calibration" if index < 10 else "train"


def folder_clips(folder: Path, split: Split, *, seconds: float) -> Iterator[Clip]:
    """Those WAV files below `folder` that belong to `split`, each at most `seconds` long.

    The name that decides is that of the path within the folder. Raises what `read_wav` does.
    """
    for path in sorted(folder.rglob("*.wav")):
        name = path.relative_to(folder).as_posix()
        if split_of(name) == split:
            yield _clip(name, read_wav(path), seconds)


def digit_clips(archive: Path, split: Split) -> Iterator[Clip]:
    """The spoken digits of `split`. Raises ClipsError."""
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                name = PurePosixPath(entry.name).name
                if not entry.isfile() or not name.endswith(".wav") or entry.size > MAX_BYTES:
                    continue
                if digit_split(name) != split:
                    continue
                file = tar.extractfile(entry)
                assert file is not None
                yield _clip(name, parse_wav(file.read(), name=name), np.inf)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise ClipsError(f"{archive}: {error}") from None


def _clip(name: str, sound: Sound, seconds: float) -> Clip:
    kept = sound.samples[: int(min(seconds * sound.rate, sound.samples.size))]
    return Clip(name=name, samples=resample(kept, sound.rate, RATE))
