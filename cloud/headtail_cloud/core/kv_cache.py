"""Which texts hold which blocks: `block_pool` applied to jobs."""

from collections.abc import Sequence

from headtail_cloud.core.block_pool import BlockPool, HashChain
from headtail_cloud.core.job import TextJob, chain_of
from headtail_cloud.core.request import TextRequest


class KvCache:
    """The key-value cache of one engine, as its scheduler sees it."""

    def __init__(self, *, blocks: int, block_tokens: int, spare: float) -> None:
        self.pool = BlockPool(blocks)
        self.block_tokens = block_tokens
        self._spare = int(blocks * spare)

    def __repr__(self) -> str:
        return f"<KvCache {self.pool!r}>"

    @property
    def usage(self) -> float | None:
        """Share of it that is held; None where there is none."""
        return 1 - self.pool.free / self.pool.total if self.pool.total else None

    def blocks_for(self, tokens: int) -> int:
        """How many blocks hold that many positions."""
        return -(-tokens // self.block_tokens)

    def ever_fits(self, request: TextRequest, max_tokens: int) -> bool:
        """Whether all of it would fit an empty cache."""
        return self.blocks_for(len(request.prompt) + max_tokens) <= self.pool.total

    def prefix_hit(self, request: TextRequest) -> int:
        """Tokens of its prompt that need not be computed, as things are."""
        chain = chain_of(request, self.block_tokens)
        return self._hit(chain, list(request.prompt))[0] * self.block_tokens

    def shared_tokens(self, job: TextJob) -> int:
        """The same, of all tokens of a job that holds no blocks."""
        return self._hit(job.chain, job.tokens)[0] * self.block_tokens

    def begin(self, job: TextJob, *, keep_spare: bool) -> bool:
        """Give a job that holds none the blocks of all its tokens, shared as far as they are here;
        or none, and say so."""
        hit, hit_free = self._hit(job.chain, job.tokens)
        wanted = self.blocks_for(len(job.tokens)) - hit
        if wanted + hit_free + (self._spare if keep_spare else 0) > self.pool.free:
            return False
        job.blocks = self.pool.share(job.chain.hashes[:hit])
        job.blocks += self.pool.take(wanted)
        job.computed = hit * self.block_tokens
        return True

    def grow(self, job: TextJob, tokens: int) -> bool:
        """Make room for that many positions more than are computed; or don't, and say so."""
        wanted = self.blocks_for(job.computed + tokens) - len(job.blocks)
        if wanted > self.pool.free:
            return False
        job.blocks += self.pool.take(max(0, wanted))
        return True

    def computed(self, job: TextJob, tokens: int) -> None:
        """That many more of its tokens have their entries; full blocks can be shared now."""
        before = job.computed // self.block_tokens
        job.computed += tokens
        job.chain.extend(job.tokens, job.computed)
        for at in range(before, job.computed // self.block_tokens):
            self.pool.seal(job.blocks[at], job.chain.hashes[at])

    def adopt(self, job: TextJob, blocks: Sequence[int], computed: int) -> None:
        """Give a job that holds none blocks that hold its first `computed` entries already."""
        job.blocks = list(blocks)
        job.computed = 0
        self.computed(job, computed)

    def evict(self, job: TextJob) -> None:
        """Take all its blocks away: it starts anew, with what is left of them in the cache."""
        self.pool.release(job.blocks)
        job.blocks = []
        job.computed = 0

    def _hit(self, chain: HashChain, tokens: list[int]) -> tuple[int, int]:
        """Leading blocks that are here, and how many of these nobody holds. The last token is
        always computed: its logits are what is wanted."""
        chain.extend(tokens, len(tokens))
        return self.pool.match(chain.hashes[: (len(tokens) - 1) // self.block_tokens])
