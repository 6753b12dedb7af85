"""Sounds as samples, and what a sound costs in codecs of sound."""

import io
import struct
import sys
import tarfile
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headtail_models.audio.clips import split_of
from headtail_models.audio.log_mel import LogMel
from headtail_models.entrance import SoundEntrance
from headtail_models.rate import sounds
from headtail_models.rate.errors import RateError
from headtail_models.rate.samples import SoundSamples
from headtail_models.rate.sounds import (
    OPUS_KBITS,
    Pcm,
    SoundFile,
    flac_sound,
    ogg_sound,
    sound_methods,
    soundfile,
    spectra_methods,
)
from headtail_models.training.yamnet_sounds import CLIPS, DIGITS

FRONT = LogMel()
ENTRANCE = SoundEntrance(FRONT)


def _wav(seconds: float, seed: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(FRONT.rate)
        values = np.random.default_rng(seed).integers(-9000, 9000, int(seconds * FRONT.rate))
        file.writeframes(values.astype("<i2").tobytes())
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clips = tmp_path / CLIPS / "some"
    clips.mkdir(parents=True)
    for number in range(40):
        (clips / f"{number}.wav").write_bytes(_wav(2.2, number))
    with tarfile.open(tmp_path / DIGITS, "w") as archive:
        for index in (1, 6, 20):
            data = _wav(0.4, index)
            entry = tarfile.TarInfo(f"7_anna_{index}.wav")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return tmp_path


def test_what_is_reported_was_kept_for_it(folder: Path) -> None:
    found = list(SoundSamples(folder, FRONT).report())
    clips = {sample.name.partition(" ")[0] for sample in found if sample.name.startswith("some/")}
    assert clips
    assert all(split_of(name) == "test" for name in clips)
    assert [sample.name for sample in found if sample.name.startswith("7_")] == ["7_anna_1.wav"]
    assert sum(sample.name.startswith("mixture") for sample in found) == 150
    kinds = [sample.name.partition("/")[0].partition(" ")[0] for sample in found[:3]]
    assert kinds == ["some", "7_anna_1.wav", "mixture"]
    chosen_on = {sample.name for sample in SoundSamples(folder, FRONT).calibration(9)}
    assert len(chosen_on) == 9
    assert not {one for one in chosen_on if "/" in one} & {sample.name for sample in found}


def test_samples_are_as_16_bits_have_them_and_fit_a_patch(folder: Path) -> None:
    found = list(SoundSamples(folder, FRONT).report())
    for sample in found:
        assert 0 < sample.frame.size <= FRONT.patch_samples
        levels = sample.frame.astype(np.float64) * 32768
        assert np.array_equal(levels, np.rint(levels))
        assert sample.file_bytes == 2 * sample.frame.size
    # Two seconds make two patches; what is less than half a patch long is left.
    starts = [one.name for one in found if one.name.startswith("some/")]
    assert {name.partition(" ")[2] for name in starts} == {"0", str(FRONT.patch_samples)}


def test_samples_sent_as_they_are() -> None:
    frame = np.zeros(FRONT.patch_samples, dtype=np.float32)
    sent = Pcm(whole=lambda tensor: {"logits": tensor}, entrance=ENTRANCE).send(frame)
    assert sent.size_bytes == 2 * FRONT.patch_samples
    assert np.array_equal(sent.outputs["logits"], FRONT.patches(frame))


def _page(segments: list[int], *, body: bytes = b"") -> bytes:
    payload = body or bytes(sum(segments))
    return b"OggS" + bytes(22) + bytes([len(segments)]) + bytes(segments) + payload


def test_an_ogg_stream_counts_by_its_packets() -> None:
    pages = [_page([19]), _page([40]), _page([255, 3, 80]), _page([7])]
    assert ogg_sound(b"".join(pages)) == 255 + 3 + 80 + 7
    with pytest.raises(ValueError, match="byte 47"):
        ogg_sound(pages[0] + b"Oggs")
    with pytest.raises(ValueError, match="byte 0"):
        ogg_sound(b"OggS")


def test_a_flac_file_counts_without_its_metadata() -> None:
    blocks = struct.pack(">I", 34) + bytes(34) + struct.pack(">I", 0x84 << 24 | 5) + bytes(5)
    assert flac_sound(b"fLaC" + blocks + bytes(1000)) == 1000
    with pytest.raises(ValueError, match="no FLAC"):
        flac_sound(b"OggS")
    with pytest.raises(ValueError, match="no end"):
        flac_sound(b"fLaC" + struct.pack(">I", 34) + bytes(34))


class _Library:
    """Stands for soundfile: writes what it was asked, and gives back the samples too long."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._samples: Any = None

    def write(self, file: io.BytesIO, samples: Any, rate: int, **settings: Any) -> None:
        self.asked.append(settings | {"rate": rate})
        self._samples = samples
        file.write(_page([19]) + _page([40]) + _page([60]))

    def read(self, file: io.BytesIO, *, dtype: str) -> tuple[Any, int]:
        return np.append(self._samples, np.ones(9, dtype=dtype)), FRONT.rate


def test_opus_at_the_rate_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library()
    monkeypatch.setattr(sounds, "soundfile", lambda: library)
    frame = np.linspace(-1, 1, FRONT.patch_samples, dtype=np.float32)
    for kbits, level in ((6, 1.0), (256, 0.0), (16, 0.96)):
        method = SoundFile(
            kind="opus", kbits=kbits, whole=lambda tensor: {"x": tensor}, entrance=ENTRANCE
        )
        sent = method.send(frame)
        assert sent.size_bytes == 60
        assert library.asked[-1]["compression_level"] == pytest.approx(level)
        assert np.array_equal(sent.outputs["x"], FRONT.patches(frame))
        assert method.setting == f"{kbits} kbit/s"


def test_rivals_with_and_without_the_library() -> None:
    def whole(tensor: Any) -> dict[str, Any]:
        return {}

    with_it = list(sound_methods(ENTRANCE, whole, kinds=("opus", "flac")))
    assert [method.family for method in with_it] == ["opus"] * len(OPUS_KBITS) + ["flac", "pcm"]
    assert [m.family for m in sound_methods(ENTRANCE, whole, kinds=())] == ["pcm"]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(RateError, match="soundfile"):
        soundfile()
    assert sounds.versions() == {}
    library = SimpleNamespace(__libsndfile_version__="1.2.2")
    monkeypatch.setitem(sys.modules, "soundfile", library)
    assert soundfile() is library
    assert sounds.versions() == {"sndfile": "1.2.2"}


def test_spectra_are_quantised_by_what_others_have(folder: Path) -> None:
    samples = list(SoundSamples(folder, FRONT).calibration(4))
    fine, coarse = spectra_methods(ENTRANCE, lambda tensor: {"x": tensor}, samples)
    frame = samples[1].frame
    true = FRONT.patches(frame)
    sent = [method.send(frame) for method in (fine, coarse)]
    assert sent[0].size_bytes > sent[1].size_bytes
    errors = [float(np.abs(one.outputs["x"] - true).max()) for one in sent]
    assert errors[0] < 0.05 < errors[1] < 0.6
