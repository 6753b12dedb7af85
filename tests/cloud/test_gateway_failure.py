import pytest

from headtail_cloud.core.actions import Finish, Kind, Outcome, Reason, Reject, Timeline
from headtail_cloud.core.task import Fault
from headtail_cloud.gateway.failure import cold_start, no_such_model, of_end, of_rejection

TIMES = Timeline(arrived_at=0.0, started_at=None, first_token_at=None, ended_at=1.0)


@pytest.mark.parametrize(
    ("reason", "retry_after_s", "status", "code"),
    [
        (Reason.TOO_LATE, 0.2, 429, "too-late"),
        (Reason.TOO_LATE, None, 422, "deadline"),
        (Reason.QUEUE_FULL, 1.5, 429, "queue-full"),
        (Reason.TENANT_LIMIT, 1.5, 429, "tenant-limit"),
        (Reason.TOO_LARGE, None, 413, "too-large"),
        (Reason.DRAINING, None, 503, "draining"),
    ],
)
def test_why_it_was_not_accepted(
    reason: Reason, retry_after_s: float | None, status: int, code: str
) -> None:
    reject = Reject(request_id="1", reason=reason, retry_after_s=retry_after_s)
    failed = of_rejection(reject)
    assert (failed.status, failed.code) == (status, code)
    assert ("Retry-After" in failed.headers) == (retry_after_s is not None)


def test_retry_after_is_rounded_up() -> None:
    assert cold_start(0.2).headers == {"Retry-After": "1", "Retry-After-Ms": "200"}


@pytest.mark.parametrize(
    ("outcome", "fault", "status"),
    [
        (Outcome.EXPIRED, None, 504),
        (Outcome.CANCELLED, None, 503),
        (Outcome.FAILED, Fault.INPUT, 400),
        (Outcome.FAILED, Fault.ENGINE, 500),
    ],
)
def test_why_there_is_no_answer(outcome: Outcome, fault: Fault | None, status: int) -> None:
    failed = of_end(
        Finish(
            request_id="1",
            kind=Kind.TAIL,
            outcome=outcome,
            timeline=TIMES,
            on_time=False,
            message="why",
            fault=fault,
        )
    )
    assert failed is not None
    assert failed.status == status


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.EXITED])
def test_an_answer_is_no_failure(outcome: Outcome) -> None:
    done = Finish(request_id="1", kind=Kind.TAIL, outcome=outcome, timeline=TIMES, on_time=True)
    assert of_end(done) is None


def test_a_name_from_outside_is_cut() -> None:
    assert len(no_such_model("x" * 10_000, "9" * 10_000).message) < 140
