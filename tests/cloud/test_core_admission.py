"""Who is taken, seen through the scheduler."""

from cloud_doubles import SEGMENT, Desk, tail, text
from headtail_cloud.core.actions import Outcome, Reason
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment
from headtail_cloud.engines.modelled import Prices

SLOW = Prices(run_s=0.02, item_s=0.01)
"""31 ms for a tail by itself, 41 for two."""


def test_a_tail_that_would_be_late_is_refused_with_the_time_to_come_again() -> None:
    desk = Desk(capacity=Capacity(max_batch=1), prices=SLOW)
    desk.arrive(0.0, *(tail(n, deadline_s=0.1) for n in range(4)))
    desk.run()
    refused = desk.rejected["tail-3"]
    assert refused.reason is Reason.TOO_LATE
    assert refused.retry_after_s is not None
    assert 0.05 <= refused.retry_after_s < 0.1
    assert {finish.outcome for finish in desk.finished.values()} == {Outcome.DONE}


def test_coming_again_after_that_time_helps() -> None:
    desk = Desk(capacity=Capacity(max_batch=1), prices=SLOW)
    desk.arrive(0.0, *(tail(n, deadline_s=0.1) for n in range(4)))
    desk.run(until=0.0)
    retry_after_s = desk.rejected["tail-3"].retry_after_s
    assert retry_after_s is not None
    desk.arrive(retry_after_s, tail(3, deadline_s=0.1))
    desk.run()
    assert desk.finished["tail-3"].timeline.ended_at <= retry_after_s + 0.1


def test_everyone_who_is_accepted_is_in_time() -> None:
    """Far more than can be served: what is taken keeps its deadline."""
    desk = Desk(capacity=Capacity(max_batch=4), prices=SLOW)
    for number in range(300):
        desk.arrive(0.004 * number, tail(number, deadline_s=0.15))
    desk.run()
    assert 50 < len(desk.finished) < 300
    assert all(f.outcome is Outcome.DONE for f in desk.finished.values())
    assert all(f.timeline.ended_at - f.timeline.arrived_at <= 0.15 for f in desk.finished.values())


def test_a_cheaper_chain_is_taken_where_the_whole_one_would_be_late() -> None:
    early = (Segment("yolo@1.0", "early"),)
    whole = (*early, SEGMENT, Segment("yolo@1.0", "rest"))
    desk = Desk(capacity=Capacity(max_batch=1), prices=SLOW)
    desk.arrive(0.0, *(tail(n, chain=whole, deadline_s=0.2, fallbacks=(early,)) for n in range(2)))
    desk.run()
    assert desk.accepted["tail-0"].variant == 0
    assert desk.accepted["tail-1"].variant == 1
    assert desk.finished["tail-1"].ran == 1
    assert desk.finished["tail-1"].timeline.ended_at <= 0.2


def test_one_that_is_due_earlier_must_not_make_those_late_that_were_accepted() -> None:
    desk = Desk(capacity=Capacity(max_batch=1), prices=SLOW)
    desk.arrive(0.0, tail(0, deadline_s=0.2), tail(1, deadline_s=0.09), tail(2, deadline_s=0.085))
    desk.run()
    assert list(desk.rejected) == ["tail-2"]
    assert desk.finished["tail-1"].timeline.ended_at <= 0.09


def test_what_is_too_late_by_itself_is_taken_once_in_a_while() -> None:
    desk = Desk(prices=SLOW, options=SchedulerOptions(probe_every_s=1.0))
    for number, when in enumerate([0.0, 0.5, 1.2]):
        desk.arrive(when, tail(number, deadline_s=0.02))
    desk.run()
    assert list(desk.accepted) == ["tail-0", "tail-2"]
    assert desk.rejected["tail-1"].retry_after_s is None


def test_a_wrong_estimate_is_found_out() -> None:
    """The engine is a hundred times as fast as it says: a few probes, and everyone is taken."""
    desk = Desk(prices=SLOW)
    desk.engine.prices = Prices(step_s=0, run_s=0.0002, item_s=0.0001)
    for number in range(50):
        desk.arrive(1.5 * number, tail(number, deadline_s=0.01))
        desk.arrive(1.5 * number + 0.5, tail(100 + number, deadline_s=0.01))
    desk.run()
    assert "tail-149" in desk.finished
    assert len(desk.rejected) < 10


def test_the_queue_is_bounded() -> None:
    desk = Desk(options=SchedulerOptions(max_waiting=3))
    desk.arrive(0.0, *(tail(n, deadline_s=5.0) for n in range(5)))
    desk.run()
    assert [desk.rejected[f"tail-{n}"].reason for n in (3, 4)] == [Reason.QUEUE_FULL] * 2


def test_thousands_at_once_are_refused_at_once() -> None:
    desk = Desk(options=SchedulerOptions(max_waiting=50, max_waiting_per_tenant=50))
    desk.arrive(0.0, *(tail(n, deadline_s=60.0) for n in range(2000)))
    desk.run(until=0.0)
    assert len(desk.scheduler) == 50
    assert len(desk.rejected) == 1950
    assert all(reject.retry_after_s for reject in desk.rejected.values())
    desk.run()
    assert {finish.on_time for finish in desk.finished.values()} == {True}


def test_a_tenant_that_floods_leaves_room_for_others() -> None:
    options = SchedulerOptions(max_waiting_per_tenant=2)
    desk = Desk(options=options)
    desk.arrive(0.0, *(tail(n, tenant="flood", deadline_s=5.0) for n in range(4)))
    desk.arrive(0.0, tail(4, tenant="quiet", deadline_s=5.0))
    desk.run()
    assert {name: r.reason for name, r in desk.rejected.items()} == {
        "tail-2": Reason.TENANT_LIMIT,
        "tail-3": Reason.TENANT_LIMIT,
    }


def test_a_flood_does_not_make_others_late() -> None:
    desk = Desk(capacity=Capacity(max_batch=1), prices=SLOW)
    desk.arrive(0.0, *(tail(n, tenant="flood", deadline_s=1.0) for n in range(40)))
    desk.arrive(0.001, tail(100, tenant="quiet", deadline_s=0.15))
    desk.run()
    quiet = desk.finished["tail-100"]
    assert quiet.outcome is Outcome.DONE
    assert quiet.timeline.ended_at < 0.15


def test_a_text_larger_than_the_cache_is_never_taken() -> None:
    desk = Desk(capacity=Capacity(max_batch=2, blocks=4, block_tokens=4))
    desk.arrive(0.0, text(0, range(14), max_tokens=4))
    desk.arrive(0.0, text(1, range(14), max_tokens=4, fallback_tokens=(2,)))
    desk.run()
    assert desk.rejected["text-0"].reason is Reason.TOO_LARGE
    assert desk.rejected["text-0"].retry_after_s is None
    assert desk.accepted["text-1"].variant == 1
    assert desk.finished["text-1"].ran == 2


def test_an_engine_without_a_cache_takes_no_text() -> None:
    desk = Desk(capacity=Capacity(max_batch=2))
    desk.arrive(0.0, text(0, [1]))
    desk.run()
    assert desk.rejected["text-0"].reason is Reason.TOO_LARGE


def test_a_text_waits_for_the_prefills_before_it() -> None:
    desk = Desk(capacity=Capacity(max_batch=8, blocks=500, block_tokens=4))
    desk.arrive(0.0, *(text(n, range(400), ttft_s=0.5, tenant=f"t{n}") for n in range(4)))
    desk.run()
    assert list(desk.rejected) == ["text-2", "text-3"]


def test_a_known_beginning_counts_as_done() -> None:
    desk = Desk(capacity=Capacity(max_batch=8, blocks=500, block_tokens=4))
    desk.arrive(0.0, text(0, range(400), ttft_s=1.0, max_tokens=1))
    desk.arrive(1.0, text(1, range(400), ttft_s=0.01, max_tokens=1))
    desk.run()
    assert desk.accepted["text-1"].predicted_s < 0.01


def test_one_decode_more_must_not_break_the_promise_to_the_others() -> None:
    desk = Desk(
        capacity=Capacity(max_batch=8, blocks=500, block_tokens=4), prices=Prices(decode_s=0.01)
    )
    desk.arrive(0.0, *(text(n, [n], max_tokens=20, tbt_s=0.03) for n in range(4)))
    desk.run()
    assert sorted(desk.accepted) == ["text-0", "text-1"]
    assert desk.rejected["text-2"].retry_after_s is not None


def test_fewer_tokens_where_the_deadline_is_near() -> None:
    desk = Desk(prices=Prices(decode_s=0.01))
    desk.arrive(0.0, text(0, [1], max_tokens=50, fallback_tokens=(20, 5), deadline_s=0.3))
    desk.run()
    assert desk.accepted["text-0"].variant == 1
    assert desk.finished["text-0"].ran == 20


def test_after_drain_nothing_is_taken_and_what_was_goes_on() -> None:
    desk = Desk()
    desk.arrive(0.0, text(0, [1, 2]))
    desk.drain(0.0)
    desk.arrive(0.001, tail(1))
    desk.run()
    assert desk.rejected["tail-1"].reason is Reason.DRAINING
    assert desk.finished["text-0"].outcome is Outcome.DONE
    assert "draining" in repr(desk.scheduler)


def busy(tails_s: float) -> Desk:
    """Texts of 100 ms of prompt each, while that many tails come a second; 50 ms deadlines."""
    desk = Desk(
        capacity=Capacity(max_batch=16, blocks=500, block_tokens=4),
        prices=Prices(step_s=0.01, prefill_s=0.001, run_s=0.002, item_s=0.001),
    )
    count = int(3 * tails_s)
    for number in range(count):
        desk.arrive(number / tails_s, tail(number, tenant="tails"))
    for number in range(12):
        prompt = range(100 * number, 100 * number + 100)
        desk.arrive(1.0, text(number, prompt, max_tokens=2, ttft_s=1.0, tbt_s=0.5))
    desk.run()
    return desk


def test_texts_are_judged_by_what_tails_leave_them() -> None:
    """Short iterations, each with its own cost, and the time that tails take."""
    taken = []
    for tails_s in (0.5, 10, 40):
        desk = busy(tails_s)
        ends = {name: end for name, end in desk.finished.items() if name.startswith("text")}
        assert all(end.on_time for end in ends.values()), tails_s
        assert all(end.on_time for name, end in desk.finished.items() if name.startswith("tail"))
        taken.append(len(ends))
    assert taken[0] > taken[1] > taken[2] > 0, taken


def test_an_engine_that_is_slow_whatever_it_does_takes_patient_texts() -> None:
    """Its iterations are longer than any should be, and prompts cost it next to nothing."""
    desk = Desk(
        capacity=Capacity(max_batch=4, blocks=500, block_tokens=4),
        prices=Prices(step_s=1.5, prefill_s=0.0, decode_s=0.0),
    )
    desk.arrive(0.0, *(text(n, range(30), ttft_s=60.0, tbt_s=10.0) for n in range(4)))
    desk.run()
    assert len(desk.finished) == 4
