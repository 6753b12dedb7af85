"""The jobs that wait, in order: by line (what one batch may hold together), then by flow."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from heapq import heapify
from typing import Generic, Protocol, TypeVar

from headtail_edge.mixing import Group, Hop


class Waiting(Protocol):
    """What the batcher needs to know of a job; times are of the caller's clock, in seconds."""

    @property
    def key(self) -> Hashable:
        """What one batch can hold together."""
        ...

    @property
    def session(self) -> bytes: ...
    @property
    def id(self) -> int: ...
    @property
    def arrived_at(self) -> float: ...
    @property
    def deadline_at(self) -> float: ...
    @property
    def codec(self) -> str: ...
    @property
    def gmacs(self) -> float:
        """What its tail computes, 1e9 multiply-adds."""
        ...

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The segments that its tail begins with, one behind the other."""
        ...

    @property
    def flow(self) -> str:
        """Whose share it is computed from."""
        ...

    @property
    def weight(self) -> float:
        """That flow's share against the others'."""
        ...

    @property
    def quota(self) -> int:
        """How many jobs of that flow may wait."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it must not share a batch: a worker died with it before."""
        ...


JobT = TypeVar("JobT", bound=Waiting)

Place = tuple[float, int]
"""When its turn is due, then a sequence number: a total order."""

Turn = tuple[bool, Place, str]
"""Whether its flow has had its share and comes after all others; a job's place, and its flow."""


class Row(Generic[JobT]):
    """Jobs in order; `jobs[i]` stands at `places[i]`."""

    __slots__ = ("jobs", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.jobs: list[JobT] = []

    def __len__(self) -> int:
        return len(self.places)

    def insert(self, place: Place, job: JobT) -> None:
        at = bisect_left(self.places, place) if self.places else 0
        self.places.insert(at, place)
        self.jobs.insert(at, job)

    def remove(self, place: Place) -> JobT:
        at = bisect_left(self.places, place)
        del self.places[at]
        return self.jobs.pop(at)

    def before(self, place: Place) -> int:
        """How many jobs come before that place."""
        return bisect_left(self.places, place)


class Line(Generic[JobT]):
    """All jobs of one key, a row a flow; no row is ever empty. `alone` counts those that must be
    so."""

    __slots__ = ("alone", "codecs", "gmacs", "hops", "rows", "size")

    def __init__(self, gmacs: float, hops: tuple[Hop, ...] = ()) -> None:
        self.gmacs = gmacs
        self.hops = hops
        self.alone = 0
        self.rows: dict[str, Row[JobT]] = {}
        self.codecs: dict[str, int] = {}
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[JobT]:
        for row in self.rows.values():
            yield from row.jobs

    def insert(self, place: Place, job: JobT) -> None:
        flow, codec = job.flow, job.codec
        row = self.rows.get(flow)
        if row is None:
            row = self.rows[flow] = Row()
        row.insert(place, job)
        self.codecs[codec] = self.codecs.get(codec, 0) + 1
        self.size += 1
        self.alone += job.alone

    def remove(self, place: Place, flow: str) -> JobT:
        row = self.rows[flow]
        job = row.remove(place)
        if not row.places:
            del self.rows[flow]
        self.codecs[job.codec] -= 1
        self.size -= 1
        self.alone -= job.alone
        return job

    def group(self, key: Hashable, jobs: int) -> Group:
        """So many of the jobs, which are all of that key."""
        return Group(key, jobs, self.gmacs, self.hops)

    def first(self, ahead: frozenset[str]) -> Turn:
        """Whose turn it is. Not to be asked of an empty line."""
        return min((flow in ahead, row.places[0], flow) for flow, row in self.rows.items())

    def turns(self, ahead: frozenset[str]) -> list[Turn]:
        """The first job of each flow, as a heap."""
        turns = [(flow in ahead, row.places[0], flow) for flow, row in self.rows.items()]
        heapify(turns)
        return turns
