"""The sounds that YAMNet's bottleneck is trained and chosen on, as patches."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from headtail_models.audio.clips import Clip, Split, digit_clips, folder_clips
from headtail_models.audio.log_mel import LogMel, Patches
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.yamnet_scenes import Samples, Scenes

DIGITS: Final = "spoken-digits.tar"
CLIPS: Final = "clips"
CLIP_SECONDS: Final = 20.0


def open_clips(data: Path, split: Split) -> list[Clip]:
    """All clips of a split: those of the spoken digits and of the folder `clips` below `data`.

    Raises TrainingDataError when there are none, and what `folder_clips` and `digit_clips` do.
    """
    found: list[Clip] = []
    if (data / DIGITS).exists():
        found += digit_clips(data / DIGITS, split)
    if (data / CLIPS).is_dir():
        found += folder_clips(data / CLIPS, split, seconds=CLIP_SECONDS)
    if not found:
        raise TrainingDataError(f"no sounds in {data}: neither {DIGITS} nor WAV files in {CLIPS}/")
    return found


def scene_patches(
    clips: Sequence[Samples], front: LogMel, *, count: int, batch: int, seed: int
) -> Iterator[Patches]:
    """`count` patches of made-up scenes, in batches of `batch` at most."""
    random = np.random.default_rng(seed)
    scenes = Scenes(clips=clips, length=front.patch_samples, rate=front.rate)
    for start in range(0, count, batch):
        some = min(batch, count - start)
        yield np.concatenate([front.patches(scenes.draw(random)) for _ in range(some)])


def clip_patches(clips: Sequence[Clip], front: LogMel, *, most: int) -> Patches:
    """The first patches of each clip as it is, at most `most` of one."""
    return np.concatenate([front.patches(clip.samples)[:most] for clip in clips])
