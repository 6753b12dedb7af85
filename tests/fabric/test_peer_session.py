"""What a server remembers of one client."""

from headtail_fabric.peer.session import Progress, Seen, Session

KEPT = 4


def session() -> Session:
    return Session(id=bytes(16), user="", name="d", route=b"r", kept=KEPT, now=0.0)


def progress() -> Progress:
    return Progress(arrived_at=0.0, deadline_at=1.0, answers=None)


def answer(one: Session, request_id: int) -> None:
    one.begin(request_id, progress())
    one.finish(request_id)
    one.keep(request_id, [b"answer"])


def test_old_answers_are_forgotten_and_not_taken_for_new_requests() -> None:
    one = session()
    for request_id in range(1, KEPT + 3):
        answer(one, request_id)
    assert one.seen(2) is Seen.FORGOTTEN
    assert one.seen(3) is Seen.ANSWERED
    assert one.seen(KEPT + 3) is Seen.NEW


def test_what_was_refused_for_now_is_new_however_much_was_answered_since() -> None:
    one = session()
    one.begin(1, progress())
    assert one.refuse(1)
    for request_id in range(2, 4 * KEPT):
        answer(one, request_id)
    assert one.seen(1) is Seen.NEW
    answer(one, 1)
    assert one.seen(1) is Seen.ANSWERED


def test_refusals_are_remembered_up_to_a_bound() -> None:
    one = session()
    for request_id in range(1, 3 * KEPT):
        one.begin(request_id, progress())
        assert one.refuse(request_id)
    for request_id in range(3 * KEPT, 5 * KEPT + 2):
        answer(one, request_id)
    assert one.seen(1) is Seen.FORGOTTEN
    assert one.seen(3 * KEPT - 1) is Seen.NEW


def test_only_what_is_in_progress_can_be_refused() -> None:
    assert not session().refuse(1)
