"""How frames are prepared, as the manifest says it: for pictures as ever, and for sounds."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headtail_models.audio import log_mel
from headtail_models.bundle.consistency import check_consistency
from headtail_models.bundle.errors import InconsistentManifestError, InvalidManifestError
from headtail_models.bundle.manifest import (
    ClassifyTask,
    DetectTask,
    FileEntry,
    LogMel,
    Manifest,
    Preprocess,
    StageEntry,
    TagTask,
    TensorSpec,
    YoloScale,
    decode_manifest,
    encode_manifest,
)
from headtail_models.bundle.specimen import write_stages


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("stages")
    manifest = write_stages(folder, gated=True)
    return replace(manifest, files=tuple(_listed(path) for path in sorted(folder.iterdir())))


def _listed(path: Path) -> FileEntry:
    return FileEntry(path=path.name, size_bytes=path.stat().st_size, sha256="0" * 64)


@pytest.fixture
def sounds() -> Manifest:
    full = StageEntry(
        file="full.onnx",
        inputs=(TensorSpec(name="patch", dtype="float32", shape=(1, 96, 64)),),
        outputs=(TensorSpec(name="logits", dtype="float32", shape=(2,)),),
        macs=1,
    )
    return Manifest(
        schema=1,
        name="sounds",
        version="1",
        task=TagTask(output="logits"),
        labels=("Speech", "Silence"),
        preprocess=LogMel(),
        full=full,
        cuts=(),
        default_cut="none",
        default_codec="raw",
        files=(FileEntry(path="full.onnx", size_bytes=1, sha256="0" * 64),),
    )


def _problems(manifest: Manifest) -> str:
    with pytest.raises(InconsistentManifestError) as caught:
        check_consistency(decode_manifest(encode_manifest(manifest)))
    return caught.value.message


def _decoded(manifest: Manifest, preprocess: object) -> Manifest:
    wire: dict[str, Any] = msgspec.json.decode(encode_manifest(manifest))
    return decode_manifest(msgspec.json.encode(wire | {"preprocess": preprocess}))


@pytest.mark.parametrize("kind", ["letterbox", "centre-crop"])
def test_pictures_are_written_as_ever(kind: Any) -> None:
    """The digests of bundles hang on these bytes."""
    way = Preprocess(kind=kind, width=64, height=48, resize=None)
    assert msgspec.json.encode(way) == (
        b'{"kind":"%s","width":64,"height":48,"fill":127,"resize":null,"mean":[],"std":[]}'
        % kind.encode()
    )
    assert way.input_shape == (3, 48, 64)


@pytest.mark.parametrize("kind", ["letterbox", "centre-crop"])
def test_pictures_of_old_manifests_are_read(pictures: Manifest, kind: str) -> None:
    way = _decoded(pictures, {"kind": kind, "width": 16, "height": 16}).preprocess
    assert isinstance(way, Preprocess)
    assert way.kind == kind


def test_sounds_come_back_as_they_were(sounds: Manifest) -> None:
    manifest = replace(sounds, preprocess=LogMel(patch_hop=24, high_hz=7000))
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert b'"kind": "log-mel"' in encode_manifest(manifest)
    assert _decoded(sounds, {"kind": "log-mel"}).preprocess == LogMel()


def test_the_fields_are_those_of_what_carries_it_out() -> None:
    names = tuple(field.name for field in fields(log_mel.LogMel))
    assert LogMel.__struct_fields__ == names
    assert LogMel().front() == log_mel.LogMel()
    assert LogMel().input_shape == (1, 96, 64)


@pytest.mark.parametrize(
    ("preprocess", "told"),
    [
        (None, "preprocess"),
        ([], "preprocess"),
        ({}, "kind"),
        ({"kind": "spectrogram", "width": 1, "height": 1}, "kind"),
        ({"kind": ["log-mel"]}, "kind"),
        ({"kind": "log-mel", "width": 8}, "width"),
        ({"kind": "log-mel", "fft": 1 << 20}, "fft"),
        ({"kind": "log-mel", "rate": 0}, "rate"),
        ({"kind": "log-mel", "offset": 0}, "offset"),
    ],
)
def test_a_preparation_that_is_none(sounds: Manifest, preprocess: object, told: str) -> None:
    with pytest.raises(InvalidManifestError, match=r"\$\.preprocess") as caught:
        _decoded(sounds, preprocess)
    assert told in caught.value.message


def test_a_front_end_that_does_not_fit(sounds: Manifest) -> None:
    told = _problems(replace(sounds, preprocess=LogMel(hop=500, bands=32)))
    assert "not one frame of shape [1, 96, 32]" in told
    assert "hop, window and FFT" in told


def test_a_task_needs_its_output_and_a_detector_pictures(sounds: Manifest) -> None:
    assert "output 'logits'" in _problems(replace(sounds, labels=("Speech",)))
    scale = YoloScale(output="logits", stride=8, anchors=((1.0, 2.0),))
    assert "a detector takes pictures" in _problems(
        replace(sounds, task=DetectTask(scales=(scale,)))
    )


@pytest.mark.parametrize("wrong", [{"threshold": 1.5}, {"max_tags": 0}, {"max_tags": 101}])
def test_tags_have_limits(sounds: Manifest, wrong: dict[str, float]) -> None:
    wire: dict[str, Any] = msgspec.json.decode(encode_manifest(sounds))
    wire["task"] |= wrong
    with pytest.raises(InvalidManifestError, match=next(iter(wrong))):
        decode_manifest(msgspec.json.encode(wire))


def test_a_tagger_may_have_exits(pictures: Manifest) -> None:
    assert any(cut.exits() for cut in pictures.cuts)
    assert isinstance(pictures.task, ClassifyTask)
    check_consistency(replace(pictures, task=TagTask(output=pictures.task.output)))
