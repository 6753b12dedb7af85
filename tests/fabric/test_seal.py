"""A device's end and an edge's, without a connection between them."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric import wire
from headtail_fabric.seal import (
    NotSealedError,
    Opener,
    ReplayedError,
    Sealer,
    SealError,
    TamperedError,
    TruncatedError,
    WrongSealKeyError,
    content,
)
from headtail_fabric.seal.cipher import PycryptodomeCipher, best_cipher
from headtail_fabric.seal.envelope import ANSWER_OVERHEAD, REQUEST_OVERHEAD, RequestEnvelope
from headtail_fabric.wire import Buffer, DType, Request, TensorInfo
from wire_samples import DIGEST, SESSION, TENSOR

VECTORS = Path(__file__).parents[1] / "vectors" / "seal-v1.json"
SECRET = bytes(range(32))
PUBLIC = best_cipher().public(SECRET)
BOOT = bytes(16)


def seeded(seed: int) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def sealer(*, seed: int = 1, pad_bytes: int = 0, to: bytes = PUBLIC) -> Sealer:
    made = Sealer(to, pad_bytes=pad_bytes, random=seeded(seed))
    made.begin(session=SESSION, boot=BOOT)
    return made


def opener(
    *, required: bool = True, refused: Callable[[SealError], None] | None = None, pad_bytes: int = 0
) -> Opener:
    return Opener(SECRET, required=required, pad_bytes=pad_bytes, random=seeded(2), refused=refused)


def sealed_request(
    by: Sealer, payload: bytes = b"payload", *, id: int = 7
) -> tuple[Request, bytes]:
    tensor, envelope = by.seal([TENSOR], [payload], id=id, bundle=DIGEST, cut="L7")
    request = Request(
        id=id, bundle=DIGEST, cut="L7", remaining_ms=250, attempt=1, tensors=(tensor,)
    )
    return request, bytes(envelope)


def opened(by: Opener, request: Request, payload: Buffer, *, session: bytes = SESSION) -> bytes:
    inner, payloads, _ = by.open(request, [payload], session=session, boot=BOOT)
    assert inner.tensors == (TENSOR,)
    return bytes(payloads[0])


def test_the_frozen_exchange() -> None:
    frozen = json.loads(VECTORS.read_text())["exchange"]
    secret, boot, session = (
        bytes.fromhex(frozen[name]) for name in ("edge_secret", "boot", "session")
    )
    cipher = PycryptodomeCipher()
    device = Sealer(
        bytes.fromhex(frozen["edge_public"]),
        pad_bytes=frozen["request_pad"],
        random=lambda size: bytes([1]) * size,
        cipher=cipher,
    )
    device.begin(session=session, boot=boot)
    request, envelope = sealed_request(device)
    frames = [bytes(frame).hex() for frame in wire.encode(request, [envelope])]
    assert frames == frozen["frames"]
    edge = Opener(
        secret, required=True, pad_bytes=0, random=lambda size: bytes([1]) * size, cipher=cipher
    )
    message, payloads = wire.decode([bytes.fromhex(frame) for frame in frozen["frames"]])
    assert isinstance(message, Request)
    inner, parts, answers = edge.open(message, payloads, session=session, boot=boot)
    assert (inner.tensors, bytes(parts[0])) == ((TENSOR,), b"payload")
    assert answers is not None
    tensor, answer = answers.seal([TENSOR], [b"answer"])
    assert bytes(answer).hex() == frozen["answer"]
    tensors, answered = device.open((tensor,), [answer], id=7)
    assert (tensors, bytes(answered[0])) == ((TENSOR,), b"answer")


def test_nothing_of_the_content_shows_outside() -> None:
    request, envelope = sealed_request(sealer(), b"a secret payload")
    frames = [bytes(frame) for frame in wire.encode(request, [envelope])]
    assert b"secret" not in b"".join(frames)
    assert b"q8+zstd" not in b"".join(frames)
    assert request.tensors[0].codec == "sealed"


def test_padding_hides_the_size() -> None:
    device, edge = sealer(pad_bytes=1024), opener(pad_bytes=512)
    sizes = set()
    for size in (0, 1, 500, 900):
        request, envelope = sealed_request(device, bytes(size))
        sizes.add(len(envelope))
        inner, payloads, answers = edge.open(request, [envelope], session=SESSION, boot=BOOT)
        assert bytes(payloads[0]) == bytes(size)
        assert inner.tensors == (TENSOR,)
        assert answers is not None
        answer = answers.seal([TENSOR], [bytes(size // 4)])[1]
        assert memoryview(answer).nbytes == 512 + ANSWER_OVERHEAD
    assert sizes == {1024 + REQUEST_OVERHEAD}


def test_a_repeated_payload_is_refused_and_a_resealed_request_is_not() -> None:
    device, edge = sealer(), opener()
    request, envelope = sealed_request(device)
    assert opened(edge, request, envelope) == b"payload"
    with pytest.raises(ReplayedError):
        opened(edge, request, envelope)
    again, other = sealed_request(device)
    assert other != envelope
    assert opened(edge, again, other) == b"payload"


def test_requests_may_overtake_one_another() -> None:
    device, edge = sealer(), opener()
    made = [sealed_request(device, bytes([id]), id=id) for id in range(1, 20)]
    for request, envelope in reversed(made):
        assert opened(edge, request, envelope) == bytes([request.id])


def test_another_edges_key_is_told_from_a_broken_seal() -> None:
    other = best_cipher().public(bytes(range(1, 33)))
    request, envelope = sealed_request(sealer(to=other))
    with pytest.raises(WrongSealKeyError):
        opened(opener(), request, envelope)


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 8},
        {"bundle": bytes(32)},
        {"cut": "L8"},
    ],
)
def test_the_seal_holds_the_header(changed: dict[str, object]) -> None:
    request, envelope = sealed_request(sealer())
    with pytest.raises(TamperedError):
        opened(opener(), msgspec.structs.replace(request, **changed), envelope)


def test_the_seal_holds_the_session_and_the_run_of_the_edge() -> None:
    request, envelope = sealed_request(sealer())
    with pytest.raises(TamperedError):
        opened(opener(), request, envelope, session=bytes(16))
    with pytest.raises(TamperedError):
        opener().open(request, [envelope], session=SESSION, boot=bytes(15) + b"\1")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_changed_byte_is_a_seal_error_and_costs_nothing_else(data: st.DataObject) -> None:
    device, edge = sealer(), opener()
    request, envelope = sealed_request(device)
    damaged = bytearray(envelope)
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealError):
        opened(edge, request, bytes(damaged))
    assert opened(edge, request, envelope) == b"payload"


def test_what_is_cut_short_is_said_to_be() -> None:
    request, envelope = sealed_request(sealer())
    for size in (0, 1, REQUEST_OVERHEAD - 1):
        with pytest.raises(TruncatedError):
            opened(opener(), request, envelope[:size])
    with pytest.raises(TamperedError):
        opened(opener(), request, envelope[:-1])


def test_two_envelopes_in_one_message_are_refused() -> None:
    request, envelope = sealed_request(sealer())
    double = msgspec.structs.replace(request, tensors=request.tensors * 2)
    with pytest.raises(TruncatedError):
        opener().open(double, [envelope, envelope], session=SESSION, boot=BOOT)


def test_a_sequence_number_beyond_the_last_is_refused() -> None:
    request, envelope = sealed_request(sealer())
    parts = RequestEnvelope.parse(envelope)
    beyond = RequestEnvelope(
        key_id=parts.key_id, enc=parts.enc, sequence=2**63, ciphertext=parts.ciphertext
    ).to_bytes()
    with pytest.raises(ReplayedError):
        opened(opener(), request, beyond)


def test_an_edge_takes_clear_requests_only_where_it_may() -> None:
    clear = Request(id=1, bundle=DIGEST, cut="L7", remaining_ms=9, attempt=1, tensors=(TENSOR,))
    told: list[SealError] = []
    assert opener(required=False).open(clear, [b"x"], session=SESSION, boot=BOOT)[2] is None
    with pytest.raises(NotSealedError):
        opener(refused=told.append).open(clear, [b"x"], session=SESSION, boot=BOOT)
    assert [type(error) for error in told] == [NotSealedError]


def test_an_answer_is_for_its_request_alone() -> None:
    device, edge, stranger = sealer(), opener(), sealer(seed=9)
    request, envelope = sealed_request(device)
    answers = edge.open(request, [envelope], session=SESSION, boot=BOOT)[2]
    assert answers is not None
    tensor, answer = answers.seal([TENSOR], [b"answer"])
    with pytest.raises(TamperedError):
        device.open((tensor,), [answer], id=8)
    with pytest.raises(TamperedError):
        stranger.open((tensor,), [answer], id=7)
    with pytest.raises(TruncatedError):
        device.open((tensor,), [bytes(answer)[:20]], id=7)
    with pytest.raises(NotSealedError):
        device.open((TENSOR,), [b"clear"], id=7)
    assert answers.seal([TENSOR], [b"answer"])[1] != answer
    assert bytes(device.open((tensor,), [answer], id=7)[1][0]) == b"answer"


def test_answers_made_before_a_reconnect_still_open() -> None:
    device, edge = sealer(), opener()
    request, envelope = sealed_request(device)
    answers = edge.open(request, [envelope], session=SESSION, boot=BOOT)[2]
    assert answers is not None
    tensor, answer = answers.seal([TENSOR], [b"answer"])
    device.begin(session=SESSION, boot=BOOT)
    assert bytes(device.open((tensor,), [answer], id=7)[1][0]) == b"answer"


def test_content_that_is_too_large_is_refused_before_it_is_sealed() -> None:
    huge = memoryview(bytes(wire.MAX_TENSOR_BYTES))
    with pytest.raises(wire.TooLargeError):
        sealer().check([TENSOR], [huge])


@given(
    st.lists(st.binary(max_size=70), max_size=5),
    st.sampled_from([0, 1, 16, 100, 1000]),
)
def test_content_joins_and_parts(payloads: list[bytes], pad_bytes: int) -> None:
    tensors = [TENSOR] * len(payloads)
    joined = content.join(tensors, payloads, pad_bytes=pad_bytes)
    assert len(joined) == content.joined_size(tensors, payloads, pad_bytes=pad_bytes)
    assert pad_bytes == 0 or len(joined) % pad_bytes == 0
    infos, views = content.part(joined)
    assert infos == tuple(tensors)
    assert [bytes(view) for view in views] == payloads


def test_payloads_are_arrays_of_any_shape_and_come_back_aligned() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    empty = np.zeros((0, 6), dtype=np.float32)
    info = TensorInfo(name="t", dtype=DType.FLOAT32, shape=(2, 3, 4), codec="raw")
    joined = content.join([info, info], [empty.data, array.data], pad_bytes=0)
    _, (nothing, view) = content.part(bytes(joined))
    assert memoryview(nothing).nbytes == 0
    back = np.frombuffer(view, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(back, array)


@given(st.binary(max_size=300))
def test_content_that_makes_no_sense_is_a_wire_error(junk: bytes) -> None:
    with pytest.raises(wire.WireError):
        content.part(junk)
