"""What a source yields: frames, and the frames that could not be had."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from headtail_models.task import Frame as Data
from headtail_models.task import Picture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """One picture, uint8 of shape (H, W, 3), BGR; or a stretch of sound, float32 of shape (n,).

    `captured_at` is a time of the source's clock; the answer is due `deadline_s` seconds later.
    `origin` says for a person where the picture comes from.
    """

    index: int
    data: Data
    captured_at: float
    deadline_s: float
    origin: str

    @property
    def deadline_at(self) -> float:
        """When the answer is due, on the clock of `captured_at`."""
        return self.captured_at + self.deadline_s

    def __repr__(self) -> str:
        size = "x".join(str(side) for side in reversed(self.data.shape[:2]))
        return f"<Frame {self.index} {self.origin} {size} at {self.captured_at:.3f}>"

    @property
    def picture(self) -> Picture | None:
        """`data`, if it is one."""
        return self.data if self.data.ndim == 3 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A frame that the source has but can't decode."""

    index: int
    origin: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A frame left out by policy before anything was done with it. The picture is gone: a burst of
    them must not fill the memory."""

    index: int
    origin: str
    reason: str = "a newer frame came first"


Captured = Frame | Unreadable
"""What a source yields."""

Item = Frame | Unreadable | Dropped
"""What the runner is given."""


class Source(Protocol):
    """Yields frames in order; their indexes are 0, 1, 2, ... without a gap.

    Iterate once, inside `with`. Iterating may block until the next frame is there; `close`, from
    any thread, ends that. Iterating raises SourceError when the source breaks or holds nothing.
    """

    @property
    def name(self) -> str:
        """For a person."""
        ...

    @property
    def live(self) -> bool:
        """Whether frames come by themselves, so that a slow reader must lose some."""
        ...

    @property
    def rate_hz(self) -> float | None:
        """Frames a second by the source's own account, or None."""
        ...

    @property
    def frame_count(self) -> int | None:
        """How many frames are expected, roughly, or None."""
        ...

    def __iter__(self) -> Iterator[Captured]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
