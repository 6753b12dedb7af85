"""Randomness: the generator's published vector, and that what is drawn is uniform."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_prifi.crypto.entropy import (
    SeededEntropy,
    SystemEntropy,
    uniform_below,
    uniform_permutation,
)


def test_the_generator_is_hmac_drbg() -> None:
    """NIST CAVS 14.3, HMAC_DRBG, SHA-256, no reseed, count 0: the second request is shown."""
    entropy = SeededEntropy(
        bytes.fromhex(
            "ca851911349384bffe89de1cbdc46e6831e44d34a4fb935ee285dd14b71a7488"
            "659ba96c601dc69fc902940805ec0ca8"
        )
    )
    entropy.bytes(128)
    assert entropy.bytes(128).hex() == (
        "e528e9abf2dece54d47c7e75e5fe302149f817ea9fb4bee6f4199697d04d5b89"
        "d54fbb978a15b5c443c9ec21036d2460b6f73ebad0dc2aba6e624abf07745bc1"
        "07694bb7547bb0995f70de25d6b29e2d3011bb19d27676c07162c8b5ccde0668"
        "961df86803482cb37ed6d5c0bb8d50cf1f50d476aa0458bdaba806f48be9dcb8"
    )


def test_one_seed_gives_one_sequence_and_another_gives_another() -> None:
    one, same, other = SeededEntropy(b"a"), SeededEntropy(b"a"), SeededEntropy(b"b")
    assert one.bytes(7) == same.bytes(7)
    assert one.bytes(100) == same.bytes(100) != other.bytes(100)


def test_the_systems_generator_gives_what_is_asked_for() -> None:
    assert len(SystemEntropy().bytes(48)) == 48
    assert SystemEntropy().bytes(32) != SystemEntropy().bytes(32)


@given(st.integers(1, 2**130), st.binary(max_size=8))
def test_a_draw_lies_below_its_bound(bound: int, seed: bytes) -> None:
    assert 0 <= uniform_below(bound, SeededEntropy(seed)) < bound


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        uniform_below(0, SystemEntropy())


def test_draws_are_uniform() -> None:
    """Chi-square over 5 cells: 4 degrees of freedom, 23.5 is exceeded once in 10,000 runs."""
    entropy, draws = SeededEntropy(b"uniform"), 5000
    seen = Counter(uniform_below(5, entropy) for _ in range(draws))
    assert sum((seen[cell] - draws / 5) ** 2 / (draws / 5) for cell in range(5)) < 23.5


def test_permutations_are_uniform() -> None:
    """Chi-square over the 24 permutations of 4: 23 degrees of freedom, 58.6 once in 15,000."""
    entropy, draws = SeededEntropy(b"permutation"), 4800
    seen = Counter(uniform_permutation(4, entropy) for _ in range(draws))
    cells = list(permutations(range(4)))
    assert set(seen) == set(cells)
    assert sum((seen[cell] - draws / 24) ** 2 / (draws / 24) for cell in cells) < 58.6


@given(st.integers(0, 50), st.binary(max_size=8))
def test_a_permutation_holds_everything_once(count: int, seed: bytes) -> None:
    assert sorted(uniform_permutation(count, SeededEntropy(seed))) == list(range(count))
