import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_cloud.core.block_pool import BlockPool, HashChain, OutOfBlocksError


def hashes(*tokens: int, tenant: str = "a", size: int = 2) -> list[bytes]:
    chain = HashChain(("lm@1", tenant), size)
    chain.extend(tokens, len(tokens))
    return chain.hashes


def filled(pool: BlockPool, *tokens: int) -> list[int]:
    """Blocks with that content, held."""
    keys = hashes(*tokens)
    blocks = pool.take(len(keys))
    for block, key in zip(blocks, keys, strict=True):
        pool.seal(block, key)
    return blocks


def test_takes_all_or_nothing() -> None:
    pool = BlockPool(3)
    pool.take(2)
    with pytest.raises(OutOfBlocksError):
        pool.take(2)
    assert repr(pool) == "<BlockPool 2/3 held, 0 known>"


def test_shares_the_longest_beginning_that_is_here() -> None:
    pool = BlockPool(4)
    blocks = filled(pool, 1, 2, 3, 4)
    assert pool.match(hashes(1, 2, 9, 9)) == (1, 0)
    assert pool.share(hashes(1, 2, 3, 4, 5, 6)) == blocks


def test_what_nobody_holds_is_still_known_until_its_place_is_needed() -> None:
    pool = BlockPool(2)
    blocks = filled(pool, 1, 2, 3, 4)
    pool.release(blocks)
    assert pool.free == 2
    assert pool.match(hashes(1, 2, 3, 4)) == (2, 2)
    pool.take(1)
    assert pool.match(hashes(1, 2, 3, 4)) == (1, 1)  # the end of the sequence went first


def test_a_shared_block_is_free_when_its_last_holder_lets_go() -> None:
    pool = BlockPool(1)
    held = filled(pool, 1, 2)
    again = pool.share(hashes(1, 2))
    pool.release(held)
    assert pool.free == 0
    pool.release(again)
    assert pool.free == 1


def test_equal_content_is_shared_once() -> None:
    pool = BlockPool(2)
    first, second = filled(pool, 1, 2), filled(pool, 1, 2)
    assert first != second
    assert pool.share(hashes(1, 2)) == first


def test_an_engine_that_lost_its_memory_shares_nothing() -> None:
    pool = BlockPool(1)
    pool.release(filled(pool, 1, 2))
    pool.forget_all()
    assert pool.match(hashes(1, 2)) == (0, 0)
    pool.seal(pool.take(1)[0], hashes(3, 4)[0])
    assert pool.match(hashes(3, 4)) == (1, 0)


def test_tenants_share_nothing() -> None:
    assert not set(hashes(1, 2, 3, 4, tenant="a")) & set(hashes(1, 2, 3, 4, tenant="b"))
    assert HashChain(("ab", "c"), 1).hashes == HashChain(("a", "bc"), 1).hashes == []
    ab, a = HashChain(("ab", "c"), 1), HashChain(("a", "bc"), 1)
    ab.extend([1], 1)
    a.extend([1], 1)
    assert ab.hashes != a.hashes


def test_a_chain_grows_with_its_sequence() -> None:
    chain = HashChain(("lm@1", "a"), 2)
    tokens = [1, 2, 3]
    chain.extend(tokens, 3)
    tokens += [4, -5]
    chain.extend(tokens, 5)
    assert chain.hashes == hashes(1, 2, 3, 4)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_no_block_leaks_or_has_two_contents(total: int, seed: int) -> None:
    draw = random.Random(seed)
    pool = BlockPool(total)
    held: list[list[int]] = []
    content: dict[int, bytes] = {}
    for _ in range(60):
        tokens = [draw.randrange(2) for _ in range(2 * draw.randrange(1, 4))]
        if held and draw.random() < 0.4:
            pool.release(held.pop(draw.randrange(len(held))))
            continue
        keys = hashes(*tokens)
        known, known_free = pool.match(keys)
        if len(keys) - known + known_free > pool.free:
            continue
        blocks = pool.share(keys[:known])
        assert [content[block] for block in blocks] == keys[:known]
        fresh = pool.take(len(keys) - known)
        assert not any(block in other for other in held for block in fresh)
        for block, key in zip(fresh, keys[known:], strict=True):
            content[block] = key
            pool.seal(block, key)
        held.append(blocks + fresh)
        assert pool.free == total - len({block for other in held for block in other})
    for blocks in held:
        pool.release(blocks)
    assert pool.free == total
