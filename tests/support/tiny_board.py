"""A released bundle for boards that takes a second to make: motion of two kinds, untrained."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from headtail_models.bundle import Bundle, open_bundle, write_bundle
from headtail_models.bundle.manifest import Provenance, Signal
from headtail_models.mcu.layers import Floats
from headtail_models.nets.motion import motion_net
from headtail_models.training.board_findings import Findings
from headtail_models.training.board_release import Given, Release, release
from headtail_models.zoo.own_bundle import assemble

WINDOW = 32
SIGNAL = Signal(
    rate_hz=50.0, window=WINDOW, hop=16, offset=(0.0,) * 3, scale=(8192.0,) * 3, units="counts"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Waves:
    """Slow ones and fast ones."""

    samples: NDArray[np.int16]
    labels: NDArray[np.int64]


def waves(count: int, *, seed: int) -> Waves:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    at = np.arange(WINDOW)[np.newaxis, :, np.newaxis]
    pace = np.where(labels == 1, 0.9, 0.2)[:, np.newaxis, np.newaxis]
    phase = random.uniform(0, 6, (count, 1, 3))
    samples = 6000 * np.sin(pace * at + phase) + random.normal(0, 500, (count, WINDOW, 3))
    return Waves(samples=samples.astype(np.int16), labels=labels.astype(np.int64))


def inputs(samples: NDArray[np.int16]) -> Floats:
    scaled: Floats = (samples / 8192).astype(np.float32)[:, np.newaxis]
    return scaled


def given() -> Given:
    """With the weights of a seed."""
    torch.manual_seed(3)
    network = motion_net(
        classes=2, channels=3, width=8, code=3, tail_width=8, tail_blocks=1, dropout=0.0
    )
    with torch.no_grad():  # statistics for the normalisations
        network.train()
        network.answers(torch.from_numpy(inputs(waves(64, seed=9).samples)), 8)
    return Given(
        network=network.eval(),
        what=Release(
            name="motion",
            description="waves",
            labels=("slow", "fast"),
            preparation=SIGNAL,
            provenance=Provenance(source="made up", licence="CC0", sha256="0" * 64),
            split="made up",
            inputs=inputs,
        ),
        train=waves(40, seed=0),
        calibration=waves(40, seed=1),
        test=waves(40, seed=2),
    )


def make(folder: Path) -> tuple[Bundle, Findings]:
    """In two folders below `folder`: as released, and as a bundle."""
    findings = release(given(), folder / "released")
    source = folder / "source"
    source.mkdir()
    manifest = assemble(folder / "released", source)
    return open_bundle(write_bundle(source, manifest, folder / "bundle")), findings
