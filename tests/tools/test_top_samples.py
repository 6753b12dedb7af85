import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail.top.samples import Samples, quantile
from headtail_fabric.metrics import PrometheusMetrics


def test_what_a_daemon_writes_is_read_back() -> None:
    metrics = PrometheusMetrics()
    counter = metrics.counter("edge_requests", "Requests", ["outcome"])
    counter.add(3, outcome="answered")
    counter.add(outcome='odd "one"\\\n')
    metrics.gauge("edge_waiting", "Waiting").set(2.5)
    phases = metrics.histogram("edge_phase_seconds", "Phases", ["phase"], buckets=(0.1, 1.0))
    for seconds in (0.05, 0.5, 0.5, 3.0):
        phases.observe(seconds, phase="queue")
    phases.observe(0.05, phase="compute")
    samples = Samples.parse(metrics.text())
    assert samples.value("edge_requests_total", outcome="answered") == 3
    assert samples.by("edge_requests_total", "outcome") == {"answered": 3, 'odd "one"\\\n': 1}
    assert samples.sum("edge_requests_total") == 4
    assert samples.value("edge_waiting") == 2.5
    assert samples.buckets("edge_phase_seconds", phase="queue") == {0.1: 1, 1.0: 3, math.inf: 4}
    assert samples.buckets("edge_phase_seconds") == {0.1: 2, 1.0: 4, math.inf: 5}
    assert "edge_waiting" in samples
    assert samples.value("edge_absent") is None


def test_what_is_not_known_is_no_number() -> None:
    samples = Samples.parse('headtail_a NaN\nheadtail_b{x="y"} +Inf 1700000000000\n')
    assert samples.value("a") is None
    assert samples.value("b", x="y") == math.inf


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    Samples.parse(text)


def test_quantiles_are_linear_within_a_bucket() -> None:
    counts = {1.0: 0.0, 2.0: 10.0, math.inf: 10.0}
    assert quantile(0.5, counts) == pytest.approx(1.5)
    assert quantile(1.0, counts) == pytest.approx(2.0)
    assert quantile(0.5, {1.0: 0.0, math.inf: 4.0}) == 1.0
    assert quantile(0.5, {1.0: 0.0, math.inf: 0.0}) is None
    assert quantile(0.5, {}) is None
