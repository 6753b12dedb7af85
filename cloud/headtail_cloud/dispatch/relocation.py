"""The moves that are under way in a fleet."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from headtail_cloud.core.block_pool import OutOfBlocksError
from headtail_cloud.core.job import TextJob
from headtail_cloud.dispatch.events import ExportState, ImportState
from headtail_cloud.dispatch.member import Member
from headtail_cloud.migration.policy import Move
from headtail_cloud.migration.stages import Copy, Migration


@dataclass(slots=True, kw_only=True)
class Under:
    """A move under way; `copy`: the one that is being made."""

    id: int
    move: Move
    migration: Migration
    source: Member
    target: Member
    copy: Copy | None = None

    def concerns(self, member: Member) -> bool:
        return member in (self.source, self.target)


class Relocation:
    """Begins moves, follows them, and ends them. Says what to copy; the fleet commits."""

    def __init__(self) -> None:
        self._under: dict[int, Under] = {}
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        moves = ", ".join(repr(under.migration) for under in self._under.values())
        return f"<Relocation {moves or 'nothing'}>"

    def begin(self, move: Move, source: Member, target: Member) -> Under | None:
        """None for a text that is gone, or moves already."""
        jobs = {job.request.id: job for job in source.scheduler.jobs}
        job = jobs.get(move.request_id)
        if not isinstance(job, TextJob) or move.request_id in self.moving(source):
            return None
        migration = Migration(job, source=source.scheduler, target=target.scheduler)
        under = Under(
            id=next(self._numbers), move=move, migration=migration, source=source, target=target
        )
        self._under[under.id] = under
        return under

    def moving(self, member: Member) -> set[str]:
        """The requests that move from or to a member."""
        return {under.move.request_id for under in self._under.values() if under.concerns(member)}

    def at(self, member: Member) -> list[Under]:
        """The moves that concern a member."""
        return [under for under in self._under.values() if under.concerns(member)]

    def find(self, move: int) -> Under | None:
        """None for one that has ended: what comes of it later is of no use."""
        return self._under.get(move)

    def step(self, under: Under, now: float) -> Iterator[ExportState]:
        """The next copy, if there is one to make now; ends a move that can't go on."""
        if not under.migration.sound:
            self.abort(under)
            return
        if under.copy is not None:
            return
        try:
            copy = under.migration.next_copy(now)
        except OutOfBlocksError:
            self.abort(under)
            return
        if copy is not None:
            under.copy = copy
            yield ExportState(instance=under.source.name, move=under.id, state=copy.source)

    def exported(self, under: Under, data: bytes) -> Iterator[ImportState]:
        """What was taken out goes in at the target."""
        if not under.migration.sound or under.copy is None:
            self.abort(under)
            return
        yield ImportState(
            instance=under.target.name, move=under.id, state=under.copy.target, data=data
        )

    def imported(self, under: Under) -> None:
        """It is in."""
        under.migration.copied()
        under.copy = None

    def abort(self, under: Under) -> None:
        """The text goes on where it is."""
        under.migration.abort()
        del self._under[under.id]

    def done(self, under: Under) -> None:
        """It has gone on at the target."""
        del self._under[under.id]
