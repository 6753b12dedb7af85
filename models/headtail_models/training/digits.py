"""The job `spoken-digits`: a keyword spotter for a microcontroller, and its tail for the edge."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch

from headtail_models.nets.digits import BANDS, PATCH, digits_net
from headtail_models.training.board_split import BoardSplitJob, Labelled, NetworkOptions
from headtail_models.training.digits_data import (
    FILE,
    LABELS,
    SPEAKERS,
    centred,
    read_digits,
    spectra,
    varied,
)
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.feature_cache import FeatureCache, open_cache
from headtail_models.training.recipe import Recipe

_LONGEST_MASK: Final = 8


class Options(NetworkOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network is. `times`: how often each utterance is varied once and for all; `tilt`:
    spread of the bands' loudness, in nats, as microphones differ; `first`: the speaker that the
    splits are counted from, so that each can be the one who is measured on."""

    width: int = 64
    code: int = 8
    dropout: float = 0.2
    times: int = 5
    tilt: float = 0.4
    first: int = 0


class DigitsJob(BoardSplitJob):
    """Four speakers to train on, one to choose on; the sixth is left for measuring."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """The varied sounds are made in `cache` if they are not there, which takes a minute.

        Raises RecipeError, TrainingDataError, SoundError."""
        options = recipe.options_as(Options)
        archive = data / FILE
        if not archive.exists():
            raise TrainingDataError(f"no {FILE} in {data}")
        self.speakers = splits(options.first)
        held = centred(read_digits(archive, self.speakers["calibration"]))
        network = options.network(digits_net, recipe.seed, classes=len(LABELS))
        calibration = Labelled(
            inputs=torch.from_numpy(spectra(held.samples)), labels=torch.from_numpy(held.labels)
        )
        super().__init__(network, calibration)
        self._tilt = options.tilt
        self._cache: FeatureCache = open_cache(
            cache,
            "spoken",
            key={"times": options.times, "seed": recipe.seed, "first": options.first},
            batches=lambda: self._varied(archive, options.times, recipe.seed),
        )

    def take(self, random: np.random.Generator, count: int) -> Labelled:
        drawn = self._cache.take(random.choice(self._cache.count, count, replace=False))
        patches = drawn["patches"].float().numpy()
        patches += random.normal(0, self._tilt, (count, 1, 1, BANDS)).astype(np.float32)
        _mask(patches, random)
        return Labelled(inputs=torch.from_numpy(patches), labels=drawn["digits"].long())

    def _varied(self, archive: Path, times: int, seed: int) -> Iterator[dict[str, torch.Tensor]]:
        utterances = read_digits(archive, self.speakers["train"])
        for number in range(times):
            spoken = varied(utterances, times=1, seed=seed * times + number)
            yield {
                "patches": torch.from_numpy(spoken.patches),
                "digits": torch.from_numpy(spoken.digits),
            }


def splits(first: int) -> dict[str, tuple[str, ...]]:
    """The speakers of each split, the first to train on being number `first`."""
    turned = (*SPEAKERS[first:], *SPEAKERS[:first])
    return {"train": turned[:4], "calibration": turned[4:5], "test": turned[5:]}


def _mask(
    patches: np.ndarray[tuple[int, ...], np.dtype[np.float32]], random: np.random.Generator
) -> None:
    """Some time silent and, half the time, a band flat (Park et al., "SpecAugment", 2019)."""
    for one in patches[:, 0]:
        start = random.integers(0, PATCH)
        one[start : start + random.integers(0, _LONGEST_MASK)] = one.min()
        if random.random() < 0.5:
            band = random.integers(0, BANDS)
            one[:, band] = one[:, band].mean()
