"""The readings as tables, for a terminal of any width."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtail.top import words
from headtail.top.reading import CloudReading, DeviceReading, EdgeReading, Reading, Unreachable

_WIDE: Final = 110

R = TypeVar("R", DeviceReading, EdgeReading, CloudReading)


@dataclass(frozen=True, slots=True)
class _Column(Generic[R]):
    """`wide` ones are left out where the terminal is narrow; `warn` says when to stand out."""

    name: str
    show: Callable[[R], str]
    wide: bool = False
    warn: Callable[[R], bool] = lambda reading: False
    left: bool = False


_DEVICE: Final[tuple[_Column[DeviceReading], ...]] = (
    _Column("device", lambda d: d.target, left=True),
    _Column("edge", lambda d: "ready" if d.edge_ready else "none", warn=lambda d: not d.edge_ready),
    _Column("fps", lambda d: words.rate(d.frames_per_s)),
    _Column("p50", lambda d: words.seconds(d.latency_p50_s), wide=True),
    _Column("p95", lambda d: words.seconds(d.latency_p95_s)),
    _Column("rtt", lambda d: words.seconds(d.rtt_s)),
    _Column("link", lambda d: words.bits_per_s(d.goodput_bytes_s)),
    _Column("lost", lambda d: words.share(d.loss), wide=True, warn=lambda d: (d.loss or 0) > 0.05),
    _Column("up", lambda d: words.bits_per_s(d.up_bytes_s), wide=True),
    _Column("flying", lambda d: words.count(d.in_flight)),
    _Column("spool", lambda d: words.count(d.spool_frames), warn=lambda d: d.spool_frames > 0),
    _Column("late", lambda d: words.count(d.late_answers), wide=True),
)
_EDGE: Final[tuple[_Column[EdgeReading], ...]] = (
    _Column("edge", lambda e: e.target, left=True),
    _Column("devs", lambda e: words.count(e.sessions)),
    _Column("req/s", lambda e: words.rate(sum(e.requests_per_s.values()))),
    _Column(
        "busy/s",
        lambda e: words.rate(e.requests_per_s.get("busy", 0.0)),
        warn=lambda e: e.requests_per_s.get("busy", 0.0) > 0,
    ),
    _Column("wait", lambda e: words.count(e.waiting)),
    _Column("run", lambda e: words.count(e.running)),
    _Column("turn", lambda e: words.seconds(e.queue_s), wide=True),
    _Column("batch", lambda e: words.mean(e.batch_mean)),
    _Column("queue95", lambda e: words.seconds(e.phase_p95_s.get("queue"))),
    _Column("tail95", lambda e: words.seconds(e.phase_p95_s.get("compute"))),
    _Column("decode95", lambda e: words.seconds(e.phase_p95_s.get("decode")), wide=True),
    _Column("bundles", lambda e: words.count(e.bundles), wide=True),
    _Column(
        "seals",
        lambda e: words.count(e.refused_seals),
        wide=True,
        warn=lambda e: e.refused_seals > 0,
    ),
    _Column(
        "deaths",
        lambda e: words.count(e.worker_deaths),
        wide=True,
        warn=lambda e: e.worker_deaths > 0,
    ),
)
_CLOUD: Final[tuple[_Column[CloudReading], ...]] = (
    _Column("cloud", lambda c: c.target, left=True),
    _Column("here", lambda c: words.count(c.here)),
    _Column("req/s", lambda c: words.rate(sum(c.requests_per_s.values()))),
    _Column("refused", lambda c: words.count(c.rejected), warn=lambda c: c.rejected > 0),
    _Column("queue95", lambda c: words.seconds(c.queue_p95_s)),
    _Column("lat95", lambda c: words.seconds(c.latency_p95_s)),
    _Column("tasks", lambda c: words.mean(c.step_tasks_mean)),
    _Column("token/s", lambda c: words.rate(c.tokens_per_s), wide=True),
    _Column("cache", lambda c: words.share(c.kv_usage), wide=True),
)


def screen(readings: Sequence[Reading], *, width: int, status: str) -> RenderableType:
    """All readings by kind, what can't be read first; `status` is the line at the top."""
    wide = width >= _WIDE
    shown: list[RenderableType] = [Text(status, style="bold", overflow="ellipsis", no_wrap=True)]
    for reading in readings:
        if isinstance(reading, Unreachable):
            shown.append(Text(f"{reading.target} can't be read: {reading.problem}", style="red"))
    devices = [reading for reading in readings if isinstance(reading, DeviceReading)]
    edges = [reading for reading in readings if isinstance(reading, EdgeReading)]
    clouds = [reading for reading in readings if isinstance(reading, CloudReading)]
    if devices:
        shown += [_table(_DEVICE, devices, wide=wide), _placements(devices, wide=wide)]
    if edges:
        shown += [_table(_EDGE, edges, wide=wide), *_callers(edges, wide=wide)]
    if clouds:
        shown.append(_table(_CLOUD, clouds, wide=wide))
    return Group(*shown)


def _table(columns: Sequence[_Column[R]], readings: Sequence[R], *, wide: bool) -> Table:
    table = Table(box=None, header_style="reverse", expand=True, pad_edge=False)
    chosen = [column for column in columns if wide or not column.wide]
    for column in chosen:
        table.add_column(
            column.name,
            justify="left" if column.left else "right",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if column.left else None,
        )
    for reading in readings:
        table.add_row(
            *(
                Text(column.show(reading), style="yellow" if column.warn(reading) else "")
                for column in chosen
            )
        )
    return table


def _placements(devices: Sequence[DeviceReading], *, wide: bool) -> Table:
    """Where frames are computed, and how they ended, a line each."""
    table = Table(box=None, header_style="reverse", expand=True, pad_edge=False)
    table.add_column("placements", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("ways of the last frames", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("outcomes since the start", no_wrap=True, overflow="ellipsis", ratio=2)
    for device in devices:
        total = sum(device.outcomes.values())
        ended = sorted(device.outcomes.items(), key=lambda item: -item[1])
        outcomes = {name: value / total for name, value in ended if value} if total else {}
        most = 4 if wide else 2
        table.add_row(
            Text(device.target),
            Text(words.parts(device.ways, most)),
            Text(words.parts(outcomes, most)),
        )
    return table


def _callers(edges: Sequence[EdgeReading], *, wide: bool) -> Sequence[Table]:
    """Which devices ask, by the names they are enrolled under; none without keys."""
    named = [edge for edge in edges if any(edge.devices)]
    if not named:
        return ()
    table = Table(box=None, header_style="reverse", expand=True, pad_edge=False)
    table.add_column("asked by", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("requests a second", no_wrap=True, overflow="ellipsis", ratio=4)
    for edge in named:
        busiest = sorted(edge.devices.items(), key=lambda item: -item[1])[: 8 if wide else 4]
        told = ", ".join(f"{name or 'no key'} {words.rate(value)}" for name, value in busiest)
        rest = len(edge.devices) - len(busiest)
        table.add_row(Text(edge.target), Text(told + (f", {rest} more" if rest else "")))
    return (table,)
