"""What links can be like, as values and as text."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.config import ConfigMissingError
from headtail_fabric.emulator import (
    PRESETS,
    Direction,
    LinkConditions,
    LinkConditionsError,
    LinkTextError,
    LinkTrace,
    Outage,
    TraceStep,
    parse_link,
)
from headtail_fabric.emulator.address import LoopbackAddress, LoopbackAddressError
from headtail_fabric.emulator.quantity import RATE, SHARE, SIZE, TIME

FAST = LinkConditions(up_bits_s=50e6, down_bits_s=50e6, rtt_s=0.004)
SLOW = LinkConditions(up_bits_s=1e6, down_bits_s=2e6, rtt_s=0.05, jitter_s=0.01, loss=0.02)
DOWN = LinkConditions(outage=Outage.STALL)


def only(trace: LinkTrace) -> LinkConditions:
    assert len(trace.steps) == 1
    return trace.at(0.0).conditions


# Values


def test_conditions_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        SLOW.loss = 0.1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("up_bits_s", 0.0),
        ("down_bits_s", 1e12),
        ("up_bits_s", float("nan")),
        ("rtt_s", -0.001),
        ("rtt_s", 61.0),
        ("jitter_s", 0.051),
        ("loss", 0.51),
        ("loss", float("nan")),
        ("burst_bytes", -1),
        ("burst_bytes", 2**30),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(LinkConditionsError, match=name) as caught:
        replace(SLOW, **changed)
    assert caught.value.facts["name"] == name


def test_rates_by_direction() -> None:
    assert SLOW.rate_bytes_s(Direction.UP) == 125_000
    assert SLOW.rate_bytes_s(Direction.DOWN) == 250_000
    assert LinkConditions().rate_bytes_s(Direction.UP) == float("inf")
    assert DOWN.rate_bytes_s(Direction.UP) == 0.0
    assert Direction.UP.back is Direction.DOWN
    assert Direction.DOWN.back is Direction.UP


def test_a_round_trip_varies_by_the_jitter() -> None:
    assert 2 * SLOW.delay_s(0.0) == pytest.approx(0.04)
    assert 2 * SLOW.delay_s(0.5) == pytest.approx(0.05)
    assert 2 * SLOW.delay_s(1.0) == pytest.approx(0.06)


def test_a_loss_costs_a_probe_and_then_time_outs_that_double() -> None:
    link = LinkConditions(rtt_s=0.03, jitter_s=0.01)
    assert link.stall_s(0) == 0.0
    assert link.stall_s(1) == pytest.approx(0.06)
    assert link.stall_s(2) == pytest.approx(0.06 + 0.24)
    assert link.stall_s(3) == pytest.approx(0.06 + 0.24 + 0.48)
    assert LinkConditions().stall_s(1) == 0.01


# Text


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("rate=2mbit", LinkConditions(up_bits_s=2e6, down_bits_s=2e6)),
        ("up=300kbit down=1.5mbit", LinkConditions(up_bits_s=3e5, down_bits_s=1.5e6)),
        ("rtt=30ms  jitter=500us", LinkConditions(rtt_s=0.03, jitter_s=0.0005)),
        ("loss=1%", LinkConditions(loss=0.01)),
        ("loss=0.02", LinkConditions(loss=0.02)),
        ("burst=16kB", LinkConditions(burst_bytes=16_000)),
        ("burst=16KiB", LinkConditions(burst_bytes=16_384)),
        ("wifi-bad", PRESETS["wifi-bad"].conditions),
        ("5g", PRESETS["5g"].conditions),
        ("lte loss=0 rtt=80ms", replace(PRESETS["lte"].conditions, loss=0.0, rtt_s=0.08)),
        (
            "lan rate=unlimited",
            replace(PRESETS["lan"].conditions, up_bits_s=None, down_bits_s=None),
        ),
        ("outage", DOWN),
        ("outage/cut", LinkConditions(outage=Outage.CUT)),
        ("10s rtt=1s # for good", LinkConditions(rtt_s=1.0)),
    ],
)
def test_conditions_from_text(text: str, conditions: LinkConditions) -> None:
    assert only(parse_link(text)) == conditions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" ; \n# nothing", "empty"),
        ("wifi-bda", "did you mean wifi-bad"),
        ("carrier-pigeon", "known are lan"),
        ("ratee=1mbit", "did you mean rate"),
        ("rate=2", "has no unit of a rate"),
        ("rate=2mb", "has no unit of a rate"),
        ("rate=fast", "is no rate"),
        ("rate=-1mbit", "is no rate"),
        ("rtt=1e400s", "too large|is no time"),
        ("rate=1mbit lte", "a preset stands first"),
        ("rate=1mbit up=2mbit", "given twice"),
        ("lte outage=5s", "outage=LASTING/EVERY"),
        ("lte outage=5s/60s/slow", "stall or cut"),
        ("lte outage=1s/9s outage=1s/9s", "given twice"),
        ("outage rate=1mbit", "same time"),
        ("10s", "a step of a trace"),
        ("10s lte; repeat; 5s lte", "a step of a trace|'repeat'"),
        ("lte; repeat", "a step of a trace|'lte'"),
        ("lte " * 300_000, "characters"),
    ],
)
def test_text_that_makes_no_sense_is_said_to(text: str, message: str) -> None:
    with pytest.raises(LinkTextError, match=message):
        parse_link(text)


@pytest.mark.parametrize(
    "text",
    ["rate=1bit", "lte rtt=1ms", "loss=90%", "lte outage=60s/60s", "0s lte; 1s lan", "burst=1e9MB"],
)
def test_text_with_values_out_of_range(text: str) -> None:
    with pytest.raises(LinkConditionsError):
        parse_link(text)


@given(st.text(max_size=60))
def test_any_text_is_a_link_or_a_known_error(text: str) -> None:
    if text.startswith("@"):
        return  # names a file
    try:
        trace = parse_link(text)
    except (LinkTextError, LinkConditionsError):
        return
    assert trace.steps


@pytest.mark.parametrize("name", PRESETS)
def test_presets_read_back_from_their_own_text(name: str) -> None:
    assert only(parse_link(str(PRESETS[name].conditions))) == PRESETS[name].conditions
    assert parse_link(name).summary == f"{name} ({PRESETS[name].conditions})"
    assert PRESETS[name].what


def in_steps(low: int, high: int, by: float) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda n: n * by)


CONDITIONS = st.builds(
    LinkConditions,
    up_bits_s=st.none() | in_steps(1, 100_000, 1e3),
    down_bits_s=st.none() | in_steps(1, 100_000, 1e3),
    rtt_s=in_steps(100, 1000, 1e-3),
    jitter_s=in_steps(0, 100, 1e-3),
    loss=in_steps(0, 500, 1e-3),
    burst_bytes=st.integers(0, 10_000_000),
) | st.sampled_from([DOWN, LinkConditions(outage=Outage.CUT)])
TRACES = st.lists(
    st.builds(TraceStep, in_steps(100, 100_000, 1e-3), CONDITIONS), min_size=2, max_size=6
).flatmap(
    lambda steps: st.builds(
        LinkTrace,
        steps=st.just(tuple(steps)),
        repeats=st.just(False) if all(s.conditions.outage for s in steps) else st.booleans(),
    )
)


@given(TRACES)
def test_a_trace_reads_back_from_its_own_text(trace: LinkTrace) -> None:
    again = parse_link(str(trace))
    assert again.repeats is trace.repeats
    assert str(again) == str(trace)
    for one, other in zip(again.steps, trace.steps, strict=True):
        assert one.lasting_s == pytest.approx(other.lasting_s)
        assert one.conditions.outage is other.conditions.outage
        assert one.conditions.rtt_s == pytest.approx(other.conditions.rtt_s)
        assert one.conditions.burst_bytes == other.conditions.burst_bytes


def test_quantities_are_written_in_the_largest_unit_that_fits() -> None:
    assert RATE.text(1.5e6) == "1.5mbit"
    assert TIME.text(0.0004) == "0.4ms"
    assert TIME.text(90.0) == "90s"
    assert SIZE.text(999) == "999B"
    assert SHARE.text(0.005) == "0.5%"


def test_a_file_may_hold_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "drive-by.txt"
    file.write_text(
        "# past the shop\n10s wifi-good\n5s lte loss=2%  # outside\n\n3s outage\nrepeat\n"
    )
    trace = parse_link(f"@{file}")
    assert len(trace.steps) == 3
    assert trace.repeats
    assert trace.summary.startswith("drive-by.txt (10s rate=50mbit")
    assert parse_link(str(trace)) == trace


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigMissingError):
        parse_link("@/nowhere/at/all.txt")


# Over time


def test_a_trace_goes_through_its_steps_and_stays_at_the_last() -> None:
    trace = LinkTrace(steps=(TraceStep(2.0, FAST), TraceStep(1.0, DOWN), TraceStep(4.0, SLOW)))
    assert [trace.at(t).conditions for t in (0.0, 1.999, 2.0, 3.0, 100.0)] == [
        FAST,
        FAST,
        DOWN,
        SLOW,
        SLOW,
    ]
    assert [trace.at(t).end_s for t in (0.0, 2.0)] == [2.0, 3.0]
    assert [trace.at(t).end_s for t in (3.0, 100.0)] == [float("inf")] * 2


def test_a_trace_that_repeats_begins_again() -> None:
    trace = LinkTrace(steps=(TraceStep(2.0, FAST), TraceStep(1.0, SLOW)), repeats=True)
    assert [trace.at(t).conditions for t in (2.5, 3.0, 5.5)] == [SLOW, FAST, SLOW]
    assert [trace.at(t).end_s for t in (2.5, 3.0, 5.5)] == [3.0, 5.0, 6.0]


@given(
    lasting=st.lists(st.floats(0.1, 100.0), min_size=1, max_size=8),
    start_s=st.floats(0.0, 1e6),
    repeats=st.booleans(),
)
def test_following_a_trace_always_gets_on(
    lasting: list[float], start_s: float, repeats: bool
) -> None:
    trace = LinkTrace(steps=tuple(TraceStep(s, FAST) for s in lasting), repeats=repeats)
    at_s = start_s
    for _ in range(20):
        end_s = trace.at(at_s).end_s
        assert end_s > at_s
        if end_s == float("inf"):
            assert not repeats
            return
        at_s = end_s


def test_an_outage_at_the_end_of_each_period() -> None:
    trace = parse_link("lte outage=5s/60s/cut")
    down = LinkConditions(outage=Outage.CUT)
    lte = PRESETS["lte"].conditions
    assert [trace.at(t).conditions for t in (0.0, 54.9, 55.1, 59.9, 60.1)] == [
        lte,
        lte,
        down,
        down,
        lte,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkTrace(steps=()),
        lambda: LinkTrace(steps=(TraceStep(1.0, FAST),) * 10_001),
        lambda: LinkTrace(steps=(TraceStep(1.0, DOWN),), repeats=True),
        lambda: TraceStep(0.01, FAST),
        lambda: TraceStep(float("nan"), FAST),
        lambda: TraceStep(1e9, FAST),
    ],
)
def test_a_trace_has_limits(make: Callable[[], object]) -> None:
    with pytest.raises(LinkConditionsError):
        make()


def test_a_long_description_is_not_repeated_as_its_label() -> None:
    text = "; ".join(["10s rate=2mbit rtt=30ms"] * 9)
    assert parse_link(text).summary == text


# Addresses


@pytest.mark.parametrize(
    ("text", "host", "port", "again"),
    [
        ("tcp://127.0.0.1:0", "127.0.0.1", 0, "tcp://127.0.0.1:0"),
        ("tcp://localhost:5557", "127.0.0.1", 5557, "tcp://127.0.0.1:5557"),
        ("tcp://[::1]:80", "::1", 80, "tcp://[::1]:80"),
    ],
)
def test_addresses_of_this_machine(text: str, host: str, port: int, again: str) -> None:
    address = LoopbackAddress.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, again)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://192.168.1.5:5557",
        "tcp://0.0.0.0:5557",
        "tcp://edge.example:5557",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:70000",
        "tcp://::1:80",
        "ipc:///tmp/edge",
        "127.0.0.1:5557",
        "",
    ],
)
def test_any_other_address_is_refused(text: str) -> None:
    with pytest.raises(LoopbackAddressError):
        LoopbackAddress.parse(text)
