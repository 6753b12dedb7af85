"""A sound file in windows, and a device that hears."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.ledger import Outcome
from headtail_device.opening import NotPicturesError
from headtail_device.source import Frame, SourceOpener
from headtail_device.source.sound import SoundFileSource
from headtail_fabric import config
from headtail_fabric.clock import FakeClock
from headtail_models.audio.errors import NotWavError
from headtail_models.audio.log_mel import LogMel
from headtail_models.bundle.manifest import LogMel as LogMelWay
from tiny_sound import RATE, tiny_sound_bundle, write_sound

FRONT = LogMel()


def noise(count: int, *, loudness: float = 0.5) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return loudness * np.random.default_rng(0).uniform(-1, 1, count)


def opened(path: Path, *, realtime: bool = False, clock: FakeClock) -> SoundFileSource:
    return SoundFileSource(
        path, front=FRONT, deadline_s=1.0, clock=clock, realtime=realtime, wait=clock.advance
    )


@pytest.mark.parametrize("extra", [-5000, 0, 1, FRONT.hop_samples, FRONT.hop_samples + 1])
def test_windows_overlap_and_reach_the_end(tmp_path: Path, extra: int) -> None:
    count = FRONT.patch_samples + extra
    source = opened(write_sound(tmp_path / "a.wav", noise(count)), clock=FakeClock())
    with source:
        frames = [frame for frame in source if isinstance(frame, Frame)]
    assert len(frames) == source.frame_count
    assert [frame.index for frame in frames] == list(range(len(frames)))
    starts = [index * FRONT.hop_samples for index in range(len(frames))]
    ends = [start + frame.data.size for start, frame in zip(starts, frames, strict=True)]
    assert ends[-1] == count
    assert all(frame.data.size == FRONT.patch_samples for frame in frames[:-1])
    assert all(frame.picture is None for frame in frames)
    for start, frame in zip(starts[1:], frames[1:], strict=True):
        shared = frame.data.size - max(0, start + frame.data.size - ends[frame.index - 1])
        np.testing.assert_array_equal(
            frames[frame.index - 1].data[FRONT.hop_samples :][:shared], frame.data[:shared]
        )


def test_another_rate_is_resampled(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.wav", noise(3 * 48_000), rate=48_000)
    source = opened(path, clock=FakeClock())
    assert source.frame_count == 1 + -(-(3 * RATE - FRONT.patch_samples) // FRONT.hop_samples)
    assert source.rate_hz == pytest.approx(RATE / FRONT.hop_samples)


def test_in_real_time_a_window_comes_when_it_has_been_heard(tmp_path: Path) -> None:
    clock = FakeClock(10.0)
    path = write_sound(tmp_path / "a.wav", noise(2 * RATE))
    source = opened(path, realtime=True, clock=clock)
    assert source.live
    captured = [frame.captured_at for frame in source if isinstance(frame, Frame)]
    assert captured[0] == pytest.approx(10.0 + FRONT.patch_samples / RATE)
    assert captured[-1] == pytest.approx(12.0)
    assert clock.now() == pytest.approx(12.0)


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    source = opened(write_sound(tmp_path / "a.wav", noise(5 * RATE)), clock=FakeClock())
    seen = []
    for frame in source:
        seen.append(frame)
        source.close()
    assert len(seen) == 1


def test_sounds_go_to_bundles_that_hear(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.WAV", noise(RATE))
    opener = SourceOpener(pace="fast", deadline_s=1.0, clock=FakeClock())
    source = opener.open(str(path), LogMelWay())
    assert (source.name, source.live) == ("a.WAV", False)
    (tmp_path / "b.wav").write_text("no sound")
    with pytest.raises(NotWavError):
        opener.open(str(tmp_path / "b.wav"), LogMelWay())


def test_a_device_hears(tmp_path: Path) -> None:
    bundle = tiny_sound_bundle(tmp_path)
    sound = np.concatenate([noise(2 * RATE, loudness=0.9), np.zeros(2 * RATE)])
    path = write_sound(tmp_path / "a.wav", sound)
    out = tmp_path / "out.jsonl"
    flags = {"bundle": str(bundle), "source": str(path), "mode": "local", "output.json": str(out)}
    chosen = config.load(DeviceConfig, None, flags)
    summary = run_device(chosen, stop=threading.Event())
    assert summary.totals[Outcome.LOCAL] == summary.frames == 8
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    heard = [line["answer"]["tags"][0]["label"] for line in lines]
    assert (heard[0], heard[-1]) == ("loud", "quiet")
    assert lines[1]["origin"] == "a.wav@0.48s"


@pytest.mark.parametrize(
    "flag", [{"output.video": "v.avi"}, {"output.pictures": "p"}, {"measure_jpeg": True}]
)
def test_what_is_for_pictures_is_refused(tmp_path: Path, flag: dict[str, object]) -> None:
    bundle = tiny_sound_bundle(tmp_path)
    flags = {"bundle": str(bundle), "source": "a.wav", "mode": "local", **flag}
    with pytest.raises(NotPicturesError):
        run_device(config.load(DeviceConfig, None, flags), stop=threading.Event())
