"""The core of taking bundles: offers, transfers, acknowledgements, refusals."""

from hypothesis import given
from hypothesis import strategies as st

from headtail_edge.push import (
    REFUSED_S,
    STALLED_S,
    Append,
    Ask,
    BundleOffered,
    Held,
    PushCore,
    Refuse,
    StartOver,
)

DIGEST, OTHER = b"d" * 32, b"o" * 32
A, B = b"a" * 16, b"b" * 16


def offer(session: bytes = A, digest: bytes = DIGEST, user: str = "") -> BundleOffered:
    return BundleOffered(session=session, user=user or session.decode()[0], digest=digest)


def started(held: Held | None = None, **limits: int) -> PushCore:
    """A core that has asked A for the bundle at time 0."""
    core = PushCore(**{"max_bytes": 1000, **limits})
    core.offered(offer())
    taken = core.next_offer(0.0)
    assert taken == offer()
    core.begin(taken, held, 0.0)
    return core


def test_the_first_offer_is_taken_up_once() -> None:
    core = PushCore(max_bytes=1000)
    core.offered(offer())
    core.offered(offer(B))
    core.offered(offer())
    first = core.next_offer(0.0)
    assert first == offer()
    assert core.begin(first, None, 0.0) == Ask(session=A, digest=DIGEST, offset=0)
    assert core.next_offer(1.0) is None


def test_what_is_held_already_is_not_asked_for_again() -> None:
    core = PushCore(max_bytes=1000)
    core.offered(offer())
    taken = core.next_offer(0.0)
    assert taken is not None
    asked = core.begin(taken, Held(offset=30, total=100), 0.0)
    assert asked == Ask(session=A, digest=DIGEST, offset=30)


def test_parts_follow_each_other_until_the_bundle_is_complete() -> None:
    core = started()
    first = core.part(A, DIGEST, offset=0, total=100, size=60, now=1.0)
    assert first == Append(offset=0, then=Ask(session=A, digest=DIGEST, offset=60))
    last = core.part(A, DIGEST, offset=60, total=100, size=40, now=2.0)
    assert last == Append(offset=60, then=None)


def test_a_part_that_comes_twice_is_acknowledged_and_not_written() -> None:
    core = started()
    core.part(A, DIGEST, offset=0, total=100, size=60, now=1.0)
    again = core.part(A, DIGEST, offset=0, total=100, size=60, now=2.0)
    assert again == Ask(session=A, digest=DIGEST, offset=60)


def test_a_part_beyond_a_gap_is_left_out() -> None:
    core = started()
    assert core.part(A, DIGEST, offset=50, total=100, size=10, now=1.0) is None


def test_a_part_that_nobody_asked_for_is_left_out() -> None:
    core = started()
    assert core.part(B, DIGEST, offset=0, total=100, size=10, now=1.0) is None
    assert core.part(A, OTHER, offset=0, total=100, size=10, now=1.0) is None


def test_another_packing_starts_over() -> None:
    core = started(Held(offset=30, total=100))
    restart = core.part(A, DIGEST, offset=30, total=101, size=10, now=1.0)
    assert restart == StartOver(then=Ask(session=A, digest=DIGEST, offset=0))
    part = core.part(A, DIGEST, offset=0, total=101, size=101, now=1.0)
    assert part == Append(offset=0, then=None)


def test_too_much_too_far_and_nothing_are_refused() -> None:
    assert isinstance(started().part(A, DIGEST, offset=0, total=1001, size=10, now=1.0), Refuse)
    assert isinstance(started().part(A, DIGEST, offset=0, total=5, size=6, now=1.0), Refuse)
    assert isinstance(started().part(A, DIGEST, offset=0, total=5, size=0, now=1.0), Refuse)


def test_a_silent_sender_makes_way_for_the_next() -> None:
    core = started()
    core.offered(offer(B))
    assert core.next_timer() == STALLED_S
    assert core.next_offer(STALLED_S - 1) is None
    assert core.next_offer(STALLED_S) == offer(B)


def test_a_part_resets_the_patience() -> None:
    core = started()
    core.part(A, DIGEST, offset=0, total=100, size=60, now=10.0)
    assert core.next_timer() == 10.0 + STALLED_S
    assert core.next_offer(STALLED_S) is None


def test_alone_a_silent_sender_is_asked_again() -> None:
    core = started()
    assert core.next_offer(STALLED_S) == offer()


def test_when_the_sender_leaves_another_may_go_on() -> None:
    core = started()
    core.offered(offer(B))
    core.session_closed(A)
    assert core.next_offer(1.0) == offer(B)
    core.session_closed(B)
    assert core.next_offer(1.0) is None
    assert core.next_timer() is None


def test_few_bundles_come_at_a_time() -> None:
    core = started(max_transfers=1)
    core.offered(offer(B, OTHER))
    assert core.next_offer(1.0) is None
    core.served(DIGEST)
    assert core.next_offer(1.0) == offer(B, OTHER)


def test_a_refused_user_is_asked_again_later_and_others_at_once() -> None:
    core = started()
    core.refused("a", DIGEST, "it is damaged", 5.0)
    assert core.next_offer(6.0) is None
    assert core.refusal("a", DIGEST, 6.0) == "it is damaged"
    assert core.refusal("b", DIGEST, 6.0) is None
    assert core.next_timer() == 5.0 + REFUSED_S
    core.offered(offer(B))
    assert core.next_offer(6.0) == offer(B)
    core.session_closed(B)
    assert core.next_offer(5.0 + REFUSED_S) == offer()
    assert core.refusal("a", DIGEST, 5.0 + REFUSED_S) is None


def test_refusals_that_nobody_offers_again_set_no_timer() -> None:
    core = started()
    core.refused("a", DIGEST, "it is damaged", 5.0)
    core.session_closed(A)
    assert core.next_timer() is None


def test_a_timer_that_is_over_does_not_come_back() -> None:
    core = started(max_transfers=1)
    core.offered(offer(B, OTHER))
    core.refused("b", OTHER, "it is damaged", 0.0)
    later = REFUSED_S + 1
    core.part(A, DIGEST, offset=0, total=100, size=60, now=later)
    assert core.next_offer(later) is None
    assert core.next_timer() == later + STALLED_S


def test_memory_for_offers_and_refusals_is_bounded() -> None:
    core = PushCore(max_bytes=1000, max_transfers=1000)
    digests = [bytes([i // 256, i % 256]) * 16 for i in range(1000)]
    for digest in digests:
        core.offered(offer(digest=digest))
        core.refused("b", digest, "no", 0.0)
    taken = 0
    while (found := core.next_offer(0.0)) is not None:
        core.begin(found, None, 0.0)
        taken += 1
    assert taken == 8
    assert sum(core.refusal("b", digest, 0.0) is not None for digest in digests) == 256


def test_repr_shows_how_far_transfers_are() -> None:
    core = started()
    core.part(A, DIGEST, offset=0, total=100, size=60, now=1.0)
    assert repr(core) == "<PushCore 1 bundles offered, {646464646464: 60/100} on their way>"


@given(st.lists(st.tuples(st.integers(-40, 20), st.integers(1, 50)), max_size=40))
def test_whatever_is_lost_or_doubled_the_bytes_stay_in_order(tries: list[tuple[int, int]]) -> None:
    content = bytes(range(200))
    core, written, wanted = started(), bytearray(), 0
    for shift, size in tries:
        # A sender that begins before, at or behind what the last acknowledgement said.
        begin = min(max(0, wanted + shift), 199)
        part = content[begin : begin + size]
        decision = core.part(A, DIGEST, offset=begin, total=200, size=len(part), now=0.0)
        if isinstance(decision, Append):
            assert decision.offset == len(written)
            written += part
            if decision.then is None:
                assert bytes(written) == content
                break
            wanted = decision.then.offset
        elif isinstance(decision, Ask):
            wanted = decision.offset
        assert wanted == len(written)
    assert content.startswith(written)
