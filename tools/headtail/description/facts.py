"""What a device's JSON lines say, counted: no model has part in it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from headtail_fabric.errors import PeerError

_MAX_LINES: Final = 1_000_000
_SHOWN: Final = 6
"""Labels that are worth a line."""


class BadLinesError(PeerError):
    """A line is not one that `headtail run` or a device's JSON sink writes. Give the file
    `frames.jsonl` of a run."""


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    frame: Annotated[int, Meta(ge=0)]
    outcome: str
    captured_s: float | None = None
    answer: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One label: in how many frames, at most how many in one of them, first and last in seconds
    from the beginning, where frames have times."""

    label: str
    frames: int
    most: int
    first_s: float | None
    last_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`seconds` from the first frame to the last; `sightings`, the most frequent first."""

    frames: int
    answered: int
    seconds: float | None
    sightings: tuple[Sighting, ...]

    def sentences(self) -> list[str]:
        """For people, and for the model."""
        length = "" if self.seconds is None else f" over {self.seconds:.0f} seconds"
        lines = [f"The camera took {self.frames} frames{length}."]
        if self.answered < self.frames:
            lines.append(f"{self.frames - self.answered} of them have no answer.")
        if not self.sightings:
            lines.append("Nothing was recognised.")
        for seen in self.sightings[:_SHOWN]:
            when = ""
            if seen.first_s is not None and seen.last_s is not None:
                when = f", from second {seen.first_s:.0f} to second {seen.last_s:.0f}"
            lines.append(
                f"{seen.label}: in {seen.frames} frames, at most {seen.most} at a time{when}."
            )
        if len(self.sightings) > _SHOWN:
            lines.append(f"{len(self.sightings) - _SHOWN} other kinds were seen more rarely.")
        return lines


def facts_of(lines: Iterable[bytes]) -> Facts:
    """Of detections, classes or sounds. Raises BadLinesError."""
    decoder = msgspec.json.Decoder(_Line)
    frames, answered = 0, 0
    times: list[float] = []
    found: dict[str, list[tuple[int, float | None]]] = {}
    for number, text in enumerate(filter(bytes.strip, lines), 1):
        if number > _MAX_LINES:
            raise BadLinesError(f"more than {_MAX_LINES} lines")
        try:
            line = decoder.decode(text)
            labels = Counter(_labels(line.answer or {}))
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise BadLinesError(f"line {number}: {error}") from None
        frames += 1
        answered += line.answer is not None
        if line.captured_s is not None:
            times.append(line.captured_s)
        for label, count in labels.items():
            found.setdefault(label, []).append((count, line.captured_s))
    start = min(times, default=0.0)
    sightings = [_sighting(label, seen, start) for label, seen in found.items()]
    return Facts(
        frames=frames,
        answered=answered,
        seconds=max(times) - start if times else None,
        sightings=tuple(sorted(sightings, key=lambda seen: (-seen.frames, seen.label))),
    )


def _sighting(label: str, seen: list[tuple[int, float | None]], start: float) -> Sighting:
    moments = [at - start for _, at in seen if at is not None]
    return Sighting(
        label=label,
        frames=len(seen),
        most=max(count for count, _ in seen),
        first_s=min(moments, default=None),
        last_s=max(moments, default=None),
    )


def _labels(answer: dict[str, Any]) -> Iterator[str]:
    """All objects of a picture; of classes and sounds the likeliest."""
    for box in answer.get("boxes", ()):
        yield str(box["label"])
    for ranked in ("top", "tags"):
        for one in answer.get(ranked, ())[:1]:
            yield str(one["label"])
