from headtail_cloud.core.actions import (
    Accept,
    EmitToken,
    Finish,
    Kind,
    Outcome,
    Reason,
    Reject,
    Step,
    Timeline,
)
from headtail_cloud.dispatch.events import Moved
from headtail_cloud.metrics import CloudMetrics
from headtail_fabric.metrics import PrometheusMetrics

TIMES = Timeline(arrived_at=1.0, started_at=1.1, first_token_at=1.2, ended_at=2.0)


def test_measures_what_happens() -> None:
    measured = PrometheusMetrics()
    metrics = CloudMetrics(measured)
    metrics.acted(Accept(request_id="1", variant=1, predicted_s=0.1))
    metrics.acted(Reject(request_id="2", reason=Reason.TOO_LATE, retry_after_s=0.1))
    for after_s in (None, 0.05):
        metrics.acted(EmitToken(request_id="1", token=7, after_s=after_s))
    for outcome in (Outcome.EXITED, Outcome.FAILED):
        metrics.acted(
            Finish(
                request_id="1",
                kind=Kind.TEXT,
                outcome=outcome,
                timeline=TIMES,
                on_time=outcome is Outcome.EXITED,
                ran=2,
            )
        )
    metrics.step_took(Step(id=1, tasks=(), estimate_s=0.1, budget_s=0.1), 0.1)
    metrics.load(3, 0.25)
    metrics.load(2, None)
    metrics.started("resident", 0.006)
    metrics.instances(2)
    metrics.acted(
        Moved(request_id="1", source="a", target="b", why="drain", pause_s=0.01, stages=2)
    )
    lines = set(measured.text().splitlines())
    assert lines >= {
        "headtail_cloud_degraded_total 1.0",
        'headtail_cloud_rejected_total{reason="too-late"} 1.0',
        "headtail_cloud_tokens_total 2.0",
        "headtail_cloud_tbt_seconds_count 1.0",
        'headtail_cloud_requests_total{outcome="exited"} 1.0',
        'headtail_cloud_early_exit_total{at="2"} 1.0',
        'headtail_cloud_goodput_total{kind="text"} 1.0',
        "headtail_cloud_latency_seconds_count 1.0",
        "headtail_cloud_ttft_seconds_count 2.0",
        "headtail_cloud_step_seconds_count 1.0",
        "headtail_cloud_kv_usage 0.25",
        "headtail_cloud_requests_here 2.0",
        'headtail_cloud_cold_start_seconds_count{tier="resident"} 1.0',
        "headtail_cloud_instances 2.0",
        'headtail_cloud_moves_total{why="drain"} 1.0',
        "headtail_cloud_move_pause_seconds_sum 0.01",
    }
