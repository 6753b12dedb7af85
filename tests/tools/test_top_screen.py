import io

import pytest
from rich.console import Console

from headtail.top import words
from headtail.top.reading import CloudReading, DeviceReading, EdgeReading, Reading, Unreachable
from headtail.top.screen import screen

READINGS: list[Reading] = [
    DeviceReading(
        target="cam-1:9102",
        frames_per_s=24.94,
        outcomes={"edge": 950.0, "degraded": 50.0},
        latency_p50_s=0.031,
        latency_p95_s=0.12,
        edge_ready=False,
        in_flight=3,
        rtt_s=0.0042,
        goodput_bytes_s=1.5e6,
        loss=0.002,
        up_bytes_s=240e3,
        ways={"L7/q8+zstd": 0.7, "local": 0.2, "input/jpeg": 0.1},
        spool_frames=7,
        late_answers=1,
    ),
    EdgeReading(
        target="edge-1:9101",
        sessions=40,
        bundles=2,
        waiting=12,
        running=4,
        queue_s=0.05,
        requests_per_s={"answered": 400.0, "busy": 3.0},
        outcomes={"answered": 1e6},
        batch_mean=3.7,
        phase_p95_s={"queue": 0.02, "compute": 0.011, "decode": 0.0004},
        devices={"cam-1": 10.0, "cam-2": 9.0},
        refused_seals=2,
        worker_deaths=0,
    ),
    CloudReading(
        target="cloud:9103",
        here=5,
        requests_per_s={"done": 12.0},
        outcomes={"done": 100.0},
        rejected=1,
        queue_p95_s=0.2,
        latency_p95_s=1.5,
        step_tasks_mean=6.2,
        tokens_per_s=88.0,
        kv_usage=0.25,
    ),
    Unreachable(target="cam-9:9102", problem="Connection refused"),
]


def shown(width: int, readings: list[Reading] = READINGS) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(screen(readings, width=width, status="headtail top"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_everything_that_matters_is_there_and_nothing_is_cut(width: int) -> None:
    text = shown(width)
    for word in ("cam-1:9102", "24.9", "120 ms", "4.2 ms", "12.0 Mbit", "403", "3.7", "11.0 ms"):
        assert word in text, word
    for word in ("L7/q8+zstd 70%", "edge 95%", "cam-1 10.0", "1.5 s", "Connection refused"):
        assert word in text, word
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_wide_terminal_shows_more() -> None:
    assert "31.0 ms" not in shown(80)
    assert "31.0 ms" in shown(120)
    assert "deaths" in shown(120)


def test_nothing_but_an_unreachable_target() -> None:
    text = shown(80, [READINGS[-1]])
    assert "cam-9:9102 can't be read: Connection refused" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (4e-5, "40 us"), (0.0123, "12.3 ms"), (0.5, "500 ms"), (12.34, "12.3 s")],
)
def test_seconds_in_words(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


def test_other_numbers_in_words() -> None:
    assert words.bits_per_s(None) == "-"
    assert words.bits_per_s(50_000) == "400 kbit"
    assert words.rate(1234.5) == "1234"
    assert words.share(0.002) == "0.2%"
    assert words.parts({"a": 0.5, "b": 0.3, "c": 0.2}, 2) == "a 50%, b 30%, +1"
    assert words.parts({}, 2) == "-"
