import contextlib

import cv2
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from headtail_fabric.codec import (
    BatchCodec,
    CodecError,
    Quantiser,
    TensorCodec,
    codec_for,
    codec_ids,
)
from headtail_fabric.codec.base import DTYPES
from headtail_fabric.wire import DType

FloatArray = NDArray[np.float32]

SHAPE = st.tuples(st.just(1), st.integers(1, 4), st.integers(1, 7), st.integers(1, 7))


def floats(shape: tuple[int, ...]) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float32, shape, elements=st.floats(-100, 100, width=32))


def quantiser(channels: int) -> Quantiser:
    low = -np.arange(1, channels + 1, dtype=np.float32)
    return Quantiser(low=low, high=-2 * low)


def codec(codec_id: str, channels: int) -> TensorCodec:
    return codec_for(codec_id, quantiser=quantiser(channels))


@given(SHAPE.flatmap(floats), st.sampled_from(["raw", "raw+zstd"]))
def test_raw_comes_back_exactly(tensor: FloatArray, codec_id: str) -> None:
    coder = codec_for(codec_id)
    np.testing.assert_array_equal(coder.decode(coder.encode(tensor), tensor.shape), tensor)


@given(
    SHAPE.flatmap(lambda shape: st.lists(floats(shape), min_size=1, max_size=5)),
    st.sampled_from([codec_id for codec_id in codec_ids() if codec_id not in ("jpeg", "webp")]),
)
def test_tensors_decoded_together_are_those_decoded_one_by_one(
    tensors: list[FloatArray], codec_id: str
) -> None:
    coder, shape = codec(codec_id, tensors[0].shape[1]), tensors[0].shape
    payloads = [bytes(coder.encode(tensor)) for tensor in tensors]
    assert isinstance(coder, BatchCodec)
    alone = [coder.decode(payload, shape) for payload in payloads]
    np.testing.assert_array_equal(coder.decode_all(payloads, shape), np.concatenate(alone))
    # Sizes that are right only on the whole are wrong.
    payloads[-1:] = [payloads[-1][:-1], payloads[-1][-1:]]
    with pytest.raises(CodecError):
        coder.decode_all(payloads, shape)


@pytest.mark.parametrize("dtype", list(DType))
def test_raw_carries_every_element_type(dtype: DType) -> None:
    tensor = np.arange(6).reshape(1, 2, 3).astype(DTYPES[dtype])
    coder = codec_for("raw", dtype=dtype)
    back = coder.decode(coder.encode(tensor), tensor.shape)
    assert back.dtype == tensor.dtype
    np.testing.assert_array_equal(back, tensor)


def test_raw_is_a_view_both_ways() -> None:
    tensor = np.ones((1, 2, 3), np.float32)
    coder = codec_for("raw")
    payload = coder.encode(tensor)
    assert np.shares_memory(np.frombuffer(payload, np.float32), tensor)
    assert np.shares_memory(coder.decode(payload, tensor.shape), tensor)


@given(
    SHAPE.flatmap(floats),
    st.sampled_from(["q8", "q4", "q8+zstd", "q4+zstd", "q8-nhwc", "q4-nhwc", "q2-nhwc"]),
)
def test_quantised_values_are_within_half_a_step_of_the_clipped_value(
    tensor: FloatArray, codec_id: str
) -> None:
    bits = int(codec_id[1])
    table = quantiser(tensor.shape[1])
    coder = codec_for(codec_id, quantiser=table)
    back = coder.decode(coder.encode(tensor), tensor.shape)
    low, high = table.low.reshape(1, -1, 1, 1), table.high.reshape(1, -1, 1, 1)
    half_step = (high - low) / (2**bits - 1) / 2
    assert back.dtype == np.float32
    assert (np.abs(back - np.clip(tensor, low, high)) <= half_step * (1 + 1e-4)).all()


@given(SHAPE.flatmap(floats), st.sampled_from(["q8", "q4"]))
def test_quantising_twice_changes_nothing_more(tensor: FloatArray, codec_id: str) -> None:
    coder = codec(codec_id, tensor.shape[1])
    once = coder.decode(coder.encode(tensor), tensor.shape)
    np.testing.assert_array_equal(coder.decode(coder.encode(once), once.shape), once)


def test_what_microcontrollers_send_has_its_channels_last() -> None:
    table = Quantiser(low=np.zeros(2, np.float32), high=np.full(2, 3, np.float32))
    tensor = np.array([[[0, 1, 2], [3, 3, 3]]], np.float32)
    coder = codec_for("q2-nhwc", quantiser=table)
    assert bytes(coder.encode(tensor)) == bytes([0b11_01_11_00, 0b11_10])
    np.testing.assert_array_equal(coder.decode(coder.encode(tensor), tensor.shape), tensor)


def test_sizes_on_the_wire() -> None:
    tensor = np.zeros((1, 3, 3, 3), np.float32)
    assert len(codec("q8", 3).encode(tensor)) == 27
    assert len(codec("q4", 3).encode(tensor)) == 14


def test_four_bit_layout_is_low_half_first() -> None:
    table = Quantiser(low=np.zeros(1, np.float32), high=np.full(1, 15, np.float32))
    tensor = np.array([[[1, 2, 3]]], np.float32)
    assert bytes(codec_for("q4", quantiser=table).encode(tensor)) == bytes([0x21, 0x03])


def test_constant_channels_infinities_and_nan_saturate() -> None:
    table = Quantiser(low=np.array([2, 0], np.float32), high=np.array([2, 1], np.float32))
    coder = codec_for("q8", quantiser=table)
    tensor = np.array([[[5, 2, -1], [np.inf, -np.inf, np.nan]]], np.float32)
    back = coder.decode(coder.encode(tensor), tensor.shape)
    np.testing.assert_array_equal(back, [[[2, 2, 2], [1, 0, 0]]])


@pytest.mark.parametrize(
    ("low", "high"), [([1], [0]), ([0], [np.nan]), ([], []), ([0, 0], [1]), ([0], [np.inf])]
)
def test_quantiser_refuses_bad_ranges(low: list[float], high: list[float]) -> None:
    with pytest.raises(ValueError, match="range"):
        Quantiser(low=np.array(low, np.float32), high=np.array(high, np.float32))


def test_encoders_refuse_tensors_of_the_wrong_kind() -> None:
    with pytest.raises(ValueError, match="3 channels"):
        codec("q8", 3).encode(np.zeros((1, 2, 2, 2), np.float32))
    with pytest.raises(ValueError, match=r"\(1, H, W, 3\)"):
        codec_for("jpeg", dtype=DType.UINT8).encode(np.zeros((2, 4, 4, 3), np.uint8))


def test_table_refuses_what_it_lacks() -> None:
    with pytest.raises(CodecError, match="unknown codec 'zip'"):
        codec_for("zip")
    with pytest.raises(CodecError, match="needs float32 and a quantiser"):
        codec_for("q8")
    with pytest.raises(CodecError, match="needs float32 and a quantiser"):
        codec_for("q4", dtype=DType.UINT8, quantiser=quantiser(1))
    with pytest.raises(CodecError, match="uint8 pictures"):
        codec_for("jpeg")
    assert all(codec_id.partition("+")[2] in ("", "zstd") for codec_id in codec_ids())


@pytest.mark.parametrize(
    "codec_id", ["raw", "raw+zstd", "q8", "q8+zstd", "q4", "q4+zstd", "q8-nhwc", "q2-nhwc"]
)
def test_wrong_sizes_are_refused(codec_id: str) -> None:
    coder = codec(codec_id, 2)
    payload = bytes(coder.encode(np.zeros((1, 2, 3, 3), np.float32)))
    with pytest.raises(CodecError):
        coder.decode(payload, (1, 2, 3, 4))
    with pytest.raises(CodecError):
        coder.decode(payload[:-1], (1, 2, 3, 3))
    with pytest.raises(CodecError):
        coder.decode(payload + b"x", (1, 2, 3, 3))


def test_wrong_channel_count_is_refused() -> None:
    payload = bytes(codec("q8", 2).encode(np.zeros((1, 2, 3, 3), np.float32)))
    with pytest.raises(CodecError, match="2 channels"):
        codec("q8", 2).decode(payload, (1, 3, 2, 3))


def test_a_zstd_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    with pytest.raises(CodecError, match="50000000 bytes, shape"):
        codec_for("raw+zstd").decode(bomb, (1, 2))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000))
    with pytest.raises(CodecError, match="zstd frame of"):
        codec_for("raw+zstd").decode(unsized, (1, 2))


@given(st.binary(max_size=300), st.sampled_from(codec_ids()))
def test_decoders_raise_nothing_but_codec_errors(payload: bytes, codec_id: str) -> None:
    picture = codec_id in ("jpeg", "webp")
    coder = codec_for(
        codec_id, dtype=DType.UINT8 if picture else DType.FLOAT32, quantiser=quantiser(2)
    )
    with pytest.raises(CodecError):
        coder.decode(payload, (1, 4, 4, 3) if picture else (1, 2, 64, 64))


def photo() -> NDArray[np.uint8]:
    ramp = np.linspace(0, 255, 48, dtype=np.uint8)
    return np.broadcast_to(ramp[None, None, :, None], (1, 32, 48, 3)).copy()


@pytest.mark.parametrize("kind", ["jpeg", "webp"])
def test_pictures_come_back_alike(kind: str) -> None:
    picture = photo()
    coder = codec_for(kind, dtype=DType.UINT8, quality=90)
    back = coder.decode(coder.encode(picture), picture.shape)
    assert back.shape == picture.shape
    assert np.abs(back.astype(int) - picture).mean() < 3


def test_lossless_webp_announces_its_size_too() -> None:
    picture = photo()
    options = [cv2.IMWRITE_WEBP_QUALITY, 101]
    payload = cv2.imencode(".webp", picture[0], options)[1].tobytes()
    assert payload[12:16] == b"VP8L"
    back = codec_for("webp", dtype=DType.UINT8).decode(payload, picture.shape)
    np.testing.assert_array_equal(back, picture)


@pytest.mark.parametrize("kind", ["jpeg", "webp"])
def test_a_picture_of_another_size_is_refused_before_decoding(kind: str) -> None:
    picture = photo()
    coder = codec_for(kind, dtype=DType.UINT8)
    payload = coder.encode(picture)
    with pytest.raises(CodecError, match="48x32 pixels, announced"):
        coder.decode(payload, (1, 48, 32, 3))


@pytest.mark.parametrize("kind", ["jpeg", "webp"])
@settings(max_examples=50)
@given(data=st.data())
def test_damaged_pictures_raise_codec_errors_or_keep_their_shape(
    kind: str, data: st.DataObject
) -> None:
    coder = codec_for(kind, dtype=DType.UINT8)
    payload = bytearray(coder.encode(photo()))
    for _ in range(3):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        assert coder.decode(bytes(payload), (1, 32, 48, 3)).shape == (1, 32, 48, 3)
