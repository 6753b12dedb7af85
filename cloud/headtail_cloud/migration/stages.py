"""One text's move from one scheduler to another, in stages.

    stage 1..n-1   copy the full blocks that were written since the last stage, while it decodes
    stage n        hold it, copy the rest, and go on at the target

The rest is short by then, so the pause is. After Sun et al., "Llumnix" (OSDI 2024, section 4.2).
What the target has already, of the same beginning, is not copied at all. Whatever goes wrong before
the end, the text goes on where it was: it is in exactly one scheduler at any time.
"""

from dataclasses import dataclass
from typing import Final

from headtail_cloud.core.actions import Action
from headtail_cloud.core.engine import StateRef
from headtail_cloud.core.job import TextJob
from headtail_cloud.core.scheduler import Scheduler

MAX_STAGES: Final = 3
_PAUSE_FROM_BLOCKS: Final = 1
"""Full blocks that are left to copy, at or below which it pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Entries to take out of the source, and where they go in the target."""

    source: StateRef
    target: StateRef


class Migration:
    """`next_copy`, then `copied`, until `complete`; then `commit`. Or `abort`, at any time."""

    def __init__(self, job: TextJob, *, source: Scheduler, target: Scheduler) -> None:
        """Raises ValueError when the caches have blocks of different sizes."""
        if source.cache.block_tokens != target.cache.block_tokens:
            raise ValueError("blocks of different sizes")
        self._job = job
        self._source = source
        self._target = target
        self._blocks: list[int] = []
        self._seen: list[int] = []
        self._sent = 0
        self._sending = 0
        self.stages = 0
        self._begun = False
        self.paused_at: float | None = None

    def __repr__(self) -> str:
        state = "paused" if self._job.held else "copying"
        return (
            f"<Migration {self.request_id} {state}, {self._sent} of {self._job.computed} "
            f"positions in {self.stages} stages>"
        )

    @property
    def request_id(self) -> str:
        return self._job.request.id

    @property
    def copying(self) -> bool:
        """Whether a copy is on its way."""
        return self._sending > 0

    @property
    def sound(self) -> bool:
        """Whether it can go on: the text has not ended, and was not preempted."""
        here = self._source.has(self._job)
        return here and self._job.blocks[: len(self._seen)] == self._seen

    @property
    def complete(self) -> bool:
        """Whether all is there, and the text stands still."""
        still = self._job.held and not self._job.in_step
        return still and not self.copying and self._sent == self._job.computed

    def next_copy(self, now: float) -> Copy | None:
        """What to copy now. None when there is nothing to copy, or the iteration must end first:
        ask again then. Raises OutOfBlocksError when the target has no room."""
        job, size = self._job, self._source.cache.block_tokens
        if not self._begun:
            self._begin()
        full = job.computed // size * size
        if not job.held and (
            self.stages + 1 >= MAX_STAGES or full - self._sent <= _PAUSE_FROM_BLOCKS * size
        ):
            job.held = True
            self.paused_at = now
        if self.copying or (job.held and job.in_step):
            return None
        end = job.computed if job.held else full
        if end == self._sent:
            return None
        return self._copy(end)

    def copied(self) -> None:
        """The last copy is in its place."""
        self._sent += self._sending
        self._sending = 0

    def commit(self, now: float) -> list[Action]:
        """Go on at the target; what it does first. When `complete`."""
        self._source.release(self.request_id)
        return self._target.adopt(self._job, now, blocks=self._blocks, computed=self._sent)

    def abort(self) -> None:
        """Go on at the source, as if nothing had been."""
        self._target.cache.pool.release(self._blocks)
        self._blocks = []
        self._job.held = False

    def _begin(self) -> None:
        """Share what the target has of it."""
        job, cache = self._job, self._target.cache
        self._begun = True
        job.chain.extend(job.tokens, job.computed)
        full = job.computed // cache.block_tokens
        self._blocks = cache.pool.share(job.chain.hashes[:full])
        self._sent = len(self._blocks) * cache.block_tokens

    def _copy(self, end: int) -> Copy:
        cache = self._target.cache
        first = self._sent // cache.block_tokens
        wanted = cache.blocks_for(end) - len(self._blocks)
        self._blocks += cache.pool.take(wanted)
        self._sending = end - self._sent
        self.stages += 1
        self._seen = self._job.blocks[: cache.blocks_for(end)]
        return Copy(
            source=StateRef(blocks=tuple(self._seen[first:]), positions=self._sending),
            target=StateRef(blocks=tuple(self._blocks[first:]), positions=self._sending),
        )
