"""Which samples suit which bundle, and that the splits stay apart."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import tiny_cifar
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import LogMel, Manifest
from headtail_models.bundle.specimen import write_specimen
from headtail_models.data.cifar10 import FILE
from headtail_models.rate.errors import RateError
from headtail_models.rate.samples import (
    CIFAR_BUNDLE,
    CifarSamples,
    SoundSamples,
    file_for,
    open_samples,
)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return open_bundle(write_specimen(tmp_path / "specimen")).manifest


def test_a_set_for_each_kind_of_bundle(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(RateError, match="3 classes"):
        file_for(manifest)
    cifar = msgspec.structs.replace(manifest, name=CIFAR_BUNDLE)
    assert file_for(cifar) == FILE
    sounds = msgspec.structs.replace(manifest, preprocess=LogMel())
    assert file_for(sounds) == ""
    assert isinstance(open_samples(sounds, tmp_path, tmp_path), SoundSamples)
    labels = tuple(str(number) for number in range(1000))
    assert file_for(msgspec.structs.replace(manifest, labels=labels)) == "imagenet-samples.tar"


def test_pictures_of_cifar(manifest: Manifest, tmp_path: Path) -> None:
    path = tiny_cifar.write_pictures(tmp_path)
    cifar = msgspec.structs.replace(manifest, name=CIFAR_BUNDLE)
    samples = open_samples(cifar, path, tmp_path / "cache")
    assert isinstance(samples, CifarSamples)
    whole, few = list(samples.report()), list(samples.report(4))
    assert len(whole) == 40
    # A few are spread over the classes, which lie one after the other.
    assert [sample.truth for sample in few] == [0, 1, 2, 3]
    assert few[0].frame.shape == (32, 32, 3)
    assert few[0].frame.dtype == np.uint8
    assert all(sample.file_bytes > 100 for sample in whole)
    held = list(samples.calibration())
    assert len(held) == 8
    seen = {sample.frame.tobytes() for sample in whole}
    assert not any(sample.frame.tobytes() in seen for sample in held)
