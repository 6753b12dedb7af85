import socket
import sys
import threading
import urllib.error
import urllib.request

import pytest

from headtail_fabric import metrics
from headtail_fabric.metrics import Metrics, NullMetrics, PrometheusMetrics


def measure(instruments: Metrics) -> None:
    requests = instruments.counter("requests", "Requests taken.", ["user", "outcome"])
    requests.add(user="cam-1", outcome="answered")
    requests.add(2, user="cam-1", outcome="answered")
    instruments.counter("starts", "Starts.").add()
    queue = instruments.gauge("queue", "Requests that wait.")
    queue.set(3)
    queue.set(1)
    instruments.gauge("sessions", "Open sessions.", ["user"]).set(1, user="cam-1")
    latency = instruments.histogram("latency_seconds", "Time to answer.", ["cut"])
    latency.observe(0.003, cut="pool2")
    instruments.histogram("batch", "Requests a batch.", buckets=[1, 2]).observe(2)


def test_measurements_are_in_the_text() -> None:
    instruments = PrometheusMetrics()
    measure(instruments)
    lines = instruments.text().splitlines()
    for line in (
        'headtail_requests_total{outcome="answered",user="cam-1"} 3.0',
        "headtail_starts_total 1.0",
        "headtail_queue 1.0",
        'headtail_sessions{user="cam-1"} 1.0',
        'headtail_latency_seconds_bucket{cut="pool2",le="0.0025"} 0.0',
        'headtail_latency_seconds_bucket{cut="pool2",le="0.005"} 1.0',
        'headtail_batch_bucket{le="1.0"} 0.0',
        'headtail_batch_bucket{le="2.0"} 1.0',
    ):
        assert line in lines
    assert instruments.port is None
    instruments.close()


def test_two_in_one_process_do_not_meet() -> None:
    first, second = PrometheusMetrics(), PrometheusMetrics()
    measure(first)
    measure(second)
    first.counter("only_here", "x").add()
    assert "only_here" not in second.text()


def test_without_a_port_nothing_is_measured() -> None:
    instruments = metrics.serve(port=None)
    assert isinstance(instruments, NullMetrics)
    measure(instruments)
    instruments.close()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(metrics.MetricsMissingError) as caught:
        metrics.serve(port=0)
    assert "pip install 'headtail[metrics]'" in caught.value.advice
    assert metrics.serve(port=None)


def test_a_port_that_is_none_is_a_resource_error() -> None:
    with pytest.raises(metrics.MetricsPortError, match="70000"):
        metrics.serve(port=70_000)


@pytest.mark.system
def test_the_port_is_served_and_freed() -> None:
    instruments = metrics.serve(port=0)
    assert isinstance(instruments, PrometheusMetrics)
    measure(instruments)
    port = instruments.port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        assert "headtail_queue 1.0" in response.read().decode()
    threads = threading.active_count()
    instruments.close()
    instruments.close()
    assert threading.active_count() < threads
    with (
        socket.create_server(("127.0.0.1", port or 0)),
        pytest.raises(metrics.MetricsPortError, match=rf"127\.0\.0\.1:{port}"),
    ):
        metrics.serve(port=port)


@pytest.mark.system
def test_checks_lie_beside_the_measurements() -> None:
    wrong: list[str] = []
    served = metrics.serve(port=0, checks={"/healthz": lambda: wrong[0] if wrong else None})
    assert isinstance(served, PrometheusMetrics)
    at = f"http://127.0.0.1:{served.port}"
    with urllib.request.urlopen(f"{at}/healthz") as answer:
        assert (answer.status, answer.read()) == (200, b"ok\n")
    wrong.append("stuck")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{at}/healthz")
    assert (caught.value.code, caught.value.read()) == (503, b"stuck\n")
    caught.value.close()
    with urllib.request.urlopen(f"{at}/metrics") as answer:
        assert answer.status == 200
    served.close()
