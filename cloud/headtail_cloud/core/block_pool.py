"""Who holds which blocks of the key-value cache: accounts only, the engine holds the memory.

A block holds the entries of `block_tokens` positions. Full blocks are known by a hash of all
tokens up to their end, so that requests with the same beginning share them. A block that nobody
holds keeps its content until it is needed for something else, the longest unused one first.

    take -> held -> seal -> held and known -> release -> free and known -> share -> held ...
                                                              | take by another
                                                              v
                                                        held, unknown
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from headtail_fabric.errors import LocalError

_HASH_BYTES: Final = 16


class OutOfBlocksError(LocalError):
    """More blocks of the key-value cache were taken than are free. This is a bug in the scheduler,
    which asks before it takes."""


class BlockPool:
    """All blocks of one engine, numbered from 0."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._holders = [0] * total
        self._hash_of: list[bytes | None] = [None] * total
        self._known: dict[bytes, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(total))

    def __repr__(self) -> str:
        return f"<BlockPool {self.total - self.free}/{self.total} held, {len(self._known)} known>"

    @property
    def free(self) -> int:
        """Blocks that nobody holds, known ones included."""
        return len(self._free)

    def match(self, hashes: Sequence[bytes]) -> tuple[int, int]:
        """How many of those blocks, from the first on, are here, and how many of them are free."""
        found = [self._known[key] for key in self._leading(hashes)]
        return len(found), sum(block in self._free for block in found)

    def share(self, hashes: Sequence[bytes]) -> list[int]:
        """Hold the blocks of the longest beginning of `hashes` that is here."""
        found = [self._known[key] for key in self._leading(hashes)]
        for block in found:
            self._free.pop(block, None)
            self._holders[block] += 1
        return found

    def take(self, count: int) -> list[int]:
        """Hold `count` blocks with no content. Raises OutOfBlocksError, and takes none then."""
        if count > self.free:
            raise OutOfBlocksError(f"{count} blocks of {self.free} free ones")
        blocks = list(islice(self._free, count))
        for block in blocks:
            del self._free[block]
            self._forget(block)
            self._holders[block] = 1
        return blocks

    def seal(self, block: int, key: bytes) -> None:
        """A held block is full, with that content. A block that has the content already stays the
        one that is shared."""
        if self._hash_of[block] is None and key not in self._known:
            self._known[key] = block
            self._hash_of[block] = key

    def release(self, blocks: Iterable[int]) -> None:
        """Hold those no longer. The last of a sequence is used again first: the beginning is what
        others may share."""
        for block in reversed(list(blocks)):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free[block] = None
                # What has no known content is of no use to anybody else.
                if self._hash_of[block] is None:
                    self._free.move_to_end(block, last=False)

    def forget_all(self) -> None:
        """The engine lost its memory: no content is known any more."""
        self._known.clear()
        self._hash_of = [None] * self.total

    def _forget(self, block: int) -> None:
        key = self._hash_of[block]
        if key is not None:
            del self._known[key]
            self._hash_of[block] = None

    def _leading(self, hashes: Sequence[bytes]) -> Iterator[bytes]:
        for key in hashes:
            if key not in self._known:
                return
            yield key


class HashChain:
    """The hashes of a sequence's full blocks; each covers all tokens before it, too.

    `salt` keeps sequences of different tenants, models and adapters apart: whether a block is in
    the cache shows in the time to the first token, and must not tell one tenant what another
    asked.
    """

    def __init__(self, salt: Sequence[str], block_tokens: int) -> None:
        start = hashlib.blake2b(digest_size=_HASH_BYTES)
        for part in salt:
            start.update(len(part.encode()).to_bytes(4, "big") + part.encode())
        self._last = start.digest()
        self._block_tokens = block_tokens
        self.hashes: list[bytes] = []

    def extend(self, tokens: Sequence[int], upto: int) -> None:
        """Cover the full blocks within the first `upto` of `tokens`, of which the covered ones
        have not changed."""
        size = self._block_tokens
        while (end := (len(self.hashes) + 1) * size) <= upto:
            state = hashlib.blake2b(self._last, digest_size=_HASH_BYTES)
            for token in tokens[end - size : end]:
                state.update(token.to_bytes(8, "big", signed=True))
            self._last = state.digest()
            self.hashes.append(self._last)
