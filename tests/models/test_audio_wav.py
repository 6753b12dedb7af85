"""WAV files of every kind that recorders write, and of every kind of damage."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.audio.errors import (
    EmptySoundError,
    NotWavError,
    SoundError,
    TruncatedSoundError,
)
from headtail_models.audio.wav import parse_wav, read_wav

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


def wav(
    body: bytes,
    *,
    kind: int = PCM,
    bits: int = 16,
    channels: int = 1,
    rate: int = 16_000,
    extended: bool = False,
    extra: bytes = b"",
    data_size: int | None = None,
) -> bytes:
    frame = channels * bits // 8
    head = struct.pack(
        "<HHIIHH", EXTENSIBLE if extended else kind, channels, rate, rate * frame, frame, bits
    )
    if extended:
        guid = struct.pack("<H", kind) + bytes.fromhex("000000001000800000aa00389b71")
        head += struct.pack("<HHI", 22, bits, 0) + guid
    size = len(body) if data_size is None else data_size
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + extra
    chunks += b"data" + struct.pack("<I", size) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def pcm(values: list[float], bits: int) -> bytes:
    scaled = [min(round(value * 2 ** (bits - 1)), 2 ** (bits - 1) - 1) for value in values]
    if bits == 8:
        return bytes(value + 128 for value in scaled)
    return b"".join(value.to_bytes(bits // 8, "little", signed=True) for value in scaled)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_samples_of_every_width_come_out_the_same(bits: int, extended: bool) -> None:
    values = [0.0, 0.5, -0.5, -1.0, 0.25]
    sound = parse_wav(wav(pcm(values, bits), bits=bits, extended=extended))
    assert sound.rate == 16_000
    assert sound.samples.dtype == np.float32
    np.testing.assert_allclose(sound.samples, values, atol=1e-6)


@pytest.mark.parametrize("extended", [False, True])
def test_floats_are_read(extended: bool) -> None:
    body = np.array([0.5, -0.25], dtype="<f4").tobytes()
    sound = parse_wav(wav(body, kind=FLOAT, bits=32, extended=extended))
    np.testing.assert_array_equal(sound.samples, np.array([0.5, -0.25], dtype=np.float32))


def test_channels_are_averaged() -> None:
    sound = parse_wav(wav(pcm([0.5, 0.25, -0.5, 0.0], 16), channels=2, rate=44_100))
    np.testing.assert_allclose(sound.samples, [0.375, -0.25], atol=1e-6)
    assert repr(sound) == "<Sound 0.00 s at 44100 Hz>"


def test_other_chunks_are_passed_over_also_odd_ones() -> None:
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    assert parse_wav(wav(pcm([0.5], 16), extra=extra)).samples.size == 1


def test_a_writer_to_a_pipe_does_not_know_the_size() -> None:
    assert parse_wav(wav(pcm([0.5, 0.5], 16), data_size=0xFFFFFFFF)).samples.size == 2


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", NotWavError, "not a WAV file"),
        (b"OggS" + bytes(40), NotWavError, "not a WAV file"),
        (wav(b""), EmptySoundError, "no sample"),
        (wav(pcm([0.5] * 10, 16))[:-3], TruncatedSoundError, "20 bytes of 'data'"),
        (wav(pcm([0.5] * 3, 16), channels=2), TruncatedSoundError, "whole frames"),
        (wav(b"")[:36], TruncatedSoundError, "before its samples"),
        (wav(bytes(2), kind=2, bits=4), NotWavError, "kind 2 with 4 bits"),
        (wav(bytes(8), bits=64), NotWavError, "64 bits"),
        (wav(bytes(2), channels=0), NotWavError, "0 channels"),
        (wav(bytes(2), rate=5), NotWavError, "5 Hz"),
        (wav(np.array([np.nan], "<f4").tobytes(), kind=FLOAT, bits=32), NotWavError, "numbers"),
        (b"RIFF\x20\0\0\0WAVEfmt \x04\0\0\0\0\0\0\0", NotWavError, "format of 4 bytes"),
        (b"RIFF\x20\0\0\0WAVEdata\x04\0\0\0\0\0\0\0", NotWavError, "before their format"),
    ],
)
def test_damage_is_named(data: bytes, error: type[SoundError], words: str) -> None:
    with pytest.raises(error, match=words):
        parse_wav(data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bell.wav"
    with pytest.raises(NotWavError, match=r"bell\.wav"):
        read_wav(path)
    path.write_bytes(wav(pcm([0.5], 16)))
    assert read_wav(path).samples.size == 1
    path.write_bytes(b"nothing")
    with pytest.raises(NotWavError, match=r"bell\.wav"):
        read_wav(path)


@given(st.binary(max_size=200), st.integers(0, 80))
def test_whatever_comes_only_sound_errors_are_raised(noise: bytes, at: int) -> None:
    whole = wav(pcm([0.1] * 16, 16))
    for data in (noise, b"RIFF\0\0\0\0WAVE" + noise, whole[:at] + noise + whole[at:]):
        try:
            sound = parse_wav(data)
        except SoundError:
            continue
        assert np.isfinite(sound.samples).all()
