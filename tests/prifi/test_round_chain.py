"""Downstream frames in order, gaps, repetitions, and the relay's word for them."""

import pytest

from headtail_prifi.core.body import split_signed
from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.announcer import Announcer
from headtail_prifi.round.chain import MAX_HELD, Chain, Offer
from headtail_prifi.round.history import first_link
from headtail_prifi.round.schedule import encode_owners

EPOCH = b"e" * 32
KEY = SigningKey(b"r" * 32)
GEOMETRY = Geometry(clients=2, cell_bytes=128)


def frames(count: int, text: bytes = b"") -> list[bytes]:
    announcer = Announcer(epoch_id=EPOCH, geometry=GEOMETRY, signing_key=KEY, max_waiting=10)
    sent = []
    for round_ in range(count):
        announcer.add_data(text + b"%d" % round_)
        sent.append(announcer.announce(encode_owners((NOBODY,)), 0, None))
    return sent


def chain(verify_every: int = 1, retain: int = 10) -> Chain:
    return Chain(epoch_id=EPOCH, relay_key=KEY.verify_key, retain=retain, verify_every=verify_every)


def test_frames_in_order() -> None:
    one, sent = chain(), frames(5)
    assert one.link_of(-1) == first_link(EPOCH)
    for round_, frame in enumerate(sent):
        assert one.offer(round_, frame) is Offer.NEXT
        one.extend(*split_signed(frame))
    assert one.next_round == 5
    statement = one.statement(4)
    assert statement is not None
    statement.verify(KEY.verify_key)
    assert one.missing is None
    assert one.statement(5) is None
    assert one.statement(-1) is None


def test_a_gap_is_held_open_until_it_is_filled() -> None:
    one, sent = chain(), frames(6)
    one.extend(*split_signed(sent[0]))
    assert one.offer(3, sent[3]) is Offer.HELD
    assert one.offer(4, sent[4]) is Offer.HELD
    assert one.missing == (1, 2)
    assert one.held() is None
    for round_ in (1, 2):
        assert one.offer(round_, sent[round_]) is Offer.NEXT
        one.extend(*split_signed(sent[round_]))
    for round_ in (3, 4):
        held = one.held()
        assert held == sent[round_]
        assert held is not None
        one.extend(*split_signed(held))
    assert one.missing is None
    with pytest.raises(FrameError):
        one.offer(one.next_round + MAX_HELD + 1, sent[5])


def test_repetitions_and_other_versions_are_told_apart() -> None:
    one, sent, other = chain(), frames(20), frames(20, b"x")
    for frame in sent:
        one.extend(*split_signed(frame))
    assert one.offer(19, sent[19]) is Offer.REPEATED
    assert one.offer(15, other[15]) is Offer.DIFFERENT
    assert one.offer(2, sent[2]) is Offer.STALE
    assert one.differing(15, other[15]) is None  # signed, but for another history
    assert one.differing(2, sent[2]) is None


def test_a_bad_signature_is_found_when_it_is_looked_for() -> None:
    sent = frames(4)
    bad = sent[1][:-1] + bytes([sent[1][-1] ^ 1])
    strict, lazy = chain(verify_every=1), chain(verify_every=3)
    strict.extend(*split_signed(sent[0]))
    with pytest.raises(SignatureError):
        strict.extend(*split_signed(bad))
    assert strict.next_round == 1
    lazy.extend(*split_signed(sent[0]))
    lazy.extend(*split_signed(bad))
    assert lazy.statement(1) is None
    lazy.extend(*split_signed(sent[2]))
    lazy.extend(*split_signed(sent[3]))
    assert lazy.statement(3) is not None


def test_an_announcer_fills_frames_up_to_the_limit() -> None:
    announcer = Announcer(
        epoch_id=EPOCH,
        geometry=Geometry(clients=2, cell_bytes=128, down_bytes=128),
        signing_key=KEY,
        max_waiting=3,
    )
    with pytest.raises(ValueError, match="holds"):
        announcer.add_data(bytes(129))
    for size in (100, 28, 1):
        announcer.add_data(bytes(size))
    assert announcer.waiting == 3
    announcer.announce(encode_owners((NOBODY,)), 0, None)
    assert announcer.waiting == 1
