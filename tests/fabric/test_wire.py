import contextlib
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric import wire
from headtail_fabric.wire import DType, TensorInfo
from wire_samples import DIGEST, SAMPLES, TENSOR

VECTORS = Path(__file__).parents[1] / "vectors" / "wire-v1.json"


def test_frozen_vectors_encode_and_decode_to_the_same_bytes() -> None:
    vectors = json.loads(VECTORS.read_text())
    assert set(vectors) == set(SAMPLES)
    for name, (message, payloads) in SAMPLES.items():
        frames = [bytes.fromhex(frame) for frame in vectors[name]]
        assert [bytes(f) for f in wire.encode(message, payloads)] == frames, name
        assert wire.decode(frames) == (message, payloads), name


def test_every_tag_is_known_and_every_message_has_a_sample() -> None:
    tags = {type(message).__struct_config__.tag for message, _ in SAMPLES.values()}
    assert tags == set(range(1, 18))


def test_payloads_pass_without_a_copy() -> None:
    payload = memoryview(bytearray(b"x" * 1000))
    request = SAMPLES["request"][0]
    frames = wire.encode(request, [payload])
    assert frames[1] is payload
    assert wire.decode(frames)[1][0] is payload


def test_another_version_is_a_typed_error() -> None:
    frame = bytearray(wire.encode(SAMPLES["ping"][0])[0])
    frame[2] = 9
    with pytest.raises(wire.UnknownVersionError, match="version 9"):
        wire.decode([bytes(frame)])


def test_unknown_tag_is_a_typed_error() -> None:
    frame = wire.PREFIX + msgspec.msgpack.encode([99, 1, 2])
    with pytest.raises(wire.UnknownTagError, match="99"):
        wire.decode([frame])


@pytest.mark.parametrize(
    ("frames", "pattern"),
    [
        ([], "without a frame"),
        ([b""], "not a Headtail message"),
        ([b"GE\x01\x00"], "not a Headtail message"),
        ([wire.MAGIC + b"\x01\x01\x90"], "reserved byte"),
        ([wire.PREFIX], "malformed header"),
        ([wire.PREFIX + b"\x90"], "malformed header"),
        ([wire.PREFIX + b"\xc1"], "malformed header"),
        ([wire.PREFIX + b"\x92\x07\xff"], "malformed header"),
        ([wire.PREFIX + b"\x93\x07\x01\x02"], "malformed header"),
        ([wire.PREFIX + b"\x92\x07\x01", b"extra"], "announces 0 payload frames, 1 came"),
        ([wire.PREFIX + b"\x91" * 1000], "malformed header"),
    ],
)
def test_malformed_messages_are_refused(frames: list[bytes], pattern: str) -> None:
    with pytest.raises(wire.WireError, match=re.escape(pattern)):
        wire.decode(frames)


def test_limits_hold_on_both_sides() -> None:
    part = SAMPLES["bundle-part"][0]
    with pytest.raises(wire.TooLargeError):
        wire.encode(part, [bytes(wire.MAX_PART_BYTES + 1)])
    frames = [wire.encode(part, [b""])[0], bytes(wire.MAX_PART_BYTES + 1)]
    with pytest.raises(wire.TooLargeError):
        wire.decode(frames)
    with pytest.raises(wire.TooLargeError):
        wire.decode([wire.PREFIX + bytes(wire.MAX_HEADER_BYTES)])


def test_a_tensor_can_not_announce_more_than_fits() -> None:
    huge = TensorInfo(name="t", dtype=DType.UINT8, shape=(65_536, 65_536), codec="raw")
    request = wire.Request(
        id=1, bundle=DIGEST, cut="L7", remaining_ms=1, attempt=1, tensors=(huge,)
    )
    with pytest.raises(wire.TooLargeError, match="65536"):
        wire.encode(request, [b""])


def test_encode_refuses_a_wrong_number_of_payloads() -> None:
    with pytest.raises(ValueError, match="2 payloads for a header of 1"):
        wire.encode(SAMPLES["request"][0], [b"", b""])


@pytest.mark.parametrize("shape", [(1,) * 7, (wire.MAX_TENSOR_BYTES + 1,), (-1,)])
def test_encode_refuses_shapes_that_the_other_side_would_refuse(shape: tuple[int, ...]) -> None:
    odd = TensorInfo(name="t", dtype=DType.UINT8, shape=shape, codec="raw")
    request = wire.Request(id=1, bundle=DIGEST, cut="L7", remaining_ms=1, attempt=1, tensors=(odd,))
    with pytest.raises(wire.TooLargeError):
        wire.encode(request, [b""])


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_decode_raises_nothing_but_wire_errors(frames: list[bytes]) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(frames)


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damaged_headers_decode_or_raise_wire_errors(name: str, data: st.DataObject) -> None:
    message, payloads = SAMPLES[name]
    header = bytearray(wire.encode(message, payloads)[0])
    at = data.draw(st.integers(0, len(header) - 1))
    header[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(header)))
    with contextlib.suppress(wire.WireError):
        decoded, _ = wire.decode([bytes(header[:cut]), *payloads])
        assert decoded.payload_count == len(payloads)


def test_size_of_a_tensor() -> None:
    assert TENSOR.size == 128 * 26 * 26
