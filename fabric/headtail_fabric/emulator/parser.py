"""Links from text.

wifi-bad                                  a preset
wifi-bad loss=0 rtt=80ms                  a preset, with changes
rate=2mbit rtt=30ms jitter=5ms loss=1% burst=16kB
lte outage=5s/60s                         down for the last 5 s of each minute
10s wifi-good; 5s lte; 3s outage; repeat  a trace; one step a line or between semicolons
@drive-by.txt                             a file with any of these; # begins a comment
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from headtail_fabric import config
from headtail_fabric.emulator.conditions import LinkConditions, Outage
from headtail_fabric.emulator.presets import PRESETS
from headtail_fabric.emulator.quantity import RATE, SHARE, SIZE, TIME
from headtail_fabric.emulator.trace import LinkTrace, TraceStep
from headtail_fabric.errors import ConfigError

_MAX_CHARS: Final = 1_000_000
_MAX_LABEL_CHARS: Final = 60

_Number = TypeVar("_Number")


class LinkTextError(ConfigError):
    """The description of the emulated link can't be understood. Write a preset's name (`headtail
    link --help` lists them), settings such as `rate=2mbit rtt=30ms jitter=5ms loss=1% burst=16kB`,
    or both; `10s lte; 5s wifi-bad; repeat` is a trace."""


def parse_link(text: str) -> LinkTrace:
    """The link that `text` describes; `@FILE` stands for what the file says.

    Raises LinkTextError, LinkConditionsError for a value out of its range, and for a file what
    `config.read` raises.
    """
    if text.startswith("@"):
        path = Path(text[1:])
        return replace(_parse(config.read(path)), label=path.name)
    return _parse(text)


def _parse(text: str) -> LinkTrace:
    if len(text) > _MAX_CHARS:
        raise LinkTextError(f"a link's description of more than {_MAX_CHARS} characters")
    lines = (line.partition("#")[0] for line in text.splitlines())
    parts = [part.split() for line in lines for part in line.split(";")]
    clauses = [words for words in parts if words]
    if not clauses:
        raise LinkTextError("an empty description of a link")
    trace = _trace(clauses) if _is_trace(clauses) else _single(clauses[0])
    label = " ".join(text.split())
    return replace(trace, label=label if len(label) <= _MAX_LABEL_CHARS else "")


def _is_trace(clauses: Sequence[Sequence[str]]) -> bool:
    first = clauses[0][0]
    return len(clauses) > 1 or (first[0].isdigit() and first not in PRESETS)


def _single(words: Sequence[str]) -> LinkTrace:
    outages = [word for word in words if word.startswith("outage=")]
    conditions = _conditions([word for word in words if word not in outages])
    if not outages:
        return LinkTrace.constant(conditions)
    if len(outages) > 1:
        raise LinkTextError(f"given twice: {outages[1]}")
    lasting, slash, rest = outages[0].removeprefix("outage=").partition("/")
    every, _, kind = rest.partition("/")
    if not slash or not every:
        raise LinkTextError(f"{outages[0]}: write outage=LASTING/EVERY, such as outage=5s/60s")
    return LinkTrace.interrupted(
        conditions,
        LinkConditions(outage=_outage(kind)),
        lasting_s=_value(TIME.parse, lasting),
        every_s=_value(TIME.parse, every),
    )


def _trace(clauses: Sequence[Sequence[str]]) -> LinkTrace:
    repeats = list(clauses[-1]) == ["repeat"]
    steps = []
    for words in clauses[:-1] if repeats else clauses:
        if len(words) < 2:
            raise LinkTextError(
                f"{words[0]!r}: a step of a trace is a time and what the link is like then"
            )
        lasting_s = _value(TIME.parse, words[0])
        steps.append(TraceStep(lasting_s, _conditions(words[1:])))
    if len(steps) == 1:
        return LinkTrace.constant(steps[0].conditions)
    return LinkTrace(steps=tuple(steps), repeats=repeats)


def _conditions(words: Sequence[str]) -> LinkConditions:
    if words and words[0].partition("/")[0] == "outage":
        if len(words) > 1:
            raise LinkTextError(f"an outage and {words[1]!r} at the same time")
        return LinkConditions(outage=_outage(words[0].partition("/")[2]))
    base = LinkConditions()
    if words and "=" not in words[0]:
        base, words = _preset(words[0]), words[1:]
    values: dict[str, Any] = {}
    for word in words:
        for name, value in _setting(word).items():
            if name in values:
                raise LinkTextError(f"given twice: {word}")
            values[name] = value
    return replace(base, **values)


def _setting(word: str) -> Mapping[str, object]:
    """What one word such as `rate=2mbit` says, by field of LinkConditions."""
    key, equals, text = word.partition("=")
    if not equals:
        raise LinkTextError(f"{word!r}: a setting is written KEY=VALUE, a preset stands first")
    if key not in _SETTINGS:
        raise LinkTextError(f"{key!r} is no setting of a link{_nearest(key, _SETTINGS)}")
    names, parse = _SETTINGS[key]
    value = _value(parse, text)
    return dict.fromkeys(names, value)


def _preset(name: str) -> LinkConditions:
    if name not in PRESETS:
        raise LinkTextError(f"no preset {name!r}{_nearest(name, PRESETS)}", presets=list(PRESETS))
    return PRESETS[name].conditions


def _outage(kind: str) -> Outage:
    try:
        return Outage(kind or "stall")
    except ValueError:
        raise LinkTextError(f"{kind!r} is no kind of outage: stall or cut") from None


def _nearest(word: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _value(parse: Callable[[str], _Number], text: str) -> _Number:
    try:
        return parse(text)
    except ValueError as error:
        raise LinkTextError(str(error)) from None


def _rate(text: str) -> float | None:
    return None if text == "unlimited" else RATE.parse(text)


def _size(text: str) -> int:
    return round(SIZE.parse(text))


_SETTINGS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], float | None]]]] = {
    "rate": (("up_bits_s", "down_bits_s"), _rate),
    "up": (("up_bits_s",), _rate),
    "down": (("down_bits_s",), _rate),
    "rtt": (("rtt_s",), TIME.parse),
    "jitter": (("jitter_s",), TIME.parse),
    "loss": (("loss",), SHARE.parse),
    "burst": (("burst_bytes",), _size),
}
