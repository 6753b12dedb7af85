"""Transcripts and the two proofs: what holds, and that nothing else does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.group import Group, group_named
from headtail_prifi.crypto.sigma import (
    EQUALITY_BYTES,
    KNOWLEDGE_BYTES,
    ProofReader,
    Transcript,
    prove_equality,
    prove_knowledge,
    verify_equality,
    verify_knowledge,
)


@pytest.fixture(params=["secp256k1", "p256"])
def group(request: pytest.FixtureRequest) -> Group:
    return group_named(request.param)


def challenge(group: Group, *items: tuple[str, bytes], context: bytes = b"") -> int:
    transcript = Transcript(group, "test", context)
    for label, data in items:
        transcript.add(label, data)
    return transcript.challenge("c")


def test_a_challenge_depends_on_every_item_and_its_label(group: Group) -> None:
    challenges = {
        challenge(group),
        challenge(group, context=b"x"),
        challenge(group, ("a", b"bc")),
        challenge(group, ("ab", b"c")),
        challenge(group, ("a", b"b"), ("", b"c")),
        challenge(group, ("a", b"b"), ("a", b"c")),
        challenge(group, ("a", b"c"), ("a", b"b")),
    }
    assert len(challenges) == 7


def test_challenges_follow_one_another(group: Group) -> None:
    one, other = (Transcript(group, "test", b"") for _ in range(2))
    first = one.challenges("c", 5)
    assert first == other.challenges("c", 5)
    assert len({*first, *one.challenges("c", 5), one.challenge("c")}) == 11
    assert one.challenge("d") != other.challenge("d")


def test_a_list_of_points_or_scalars_is_absorbed_with_its_length(group: Group) -> None:
    one, other = (Transcript(group, "test", b"") for _ in range(2))
    one.add_points("p", [group.base])
    one.add_scalars("s", [1, 2])
    other.add_points("p", [group.base, group.base])
    other.add_scalars("s", [1])
    assert one.challenge("c") != other.challenge("c")


def test_the_two_groups_have_different_transcripts() -> None:
    one, other = (challenge(group_named(name)) for name in ("secp256k1", "p256"))
    assert one != other


@pytest.mark.parametrize("count", [1, 2, 5])
def test_knowledge_is_proven(group: Group, count: int) -> None:
    entropy = SeededEntropy(b"knowledge")
    base = group.hash_to_point("base", b"")
    secrets = [group.random_scalar(entropy) for _ in range(count)]
    points = [group.mul(base, secret) for secret in secrets]
    proof = prove_knowledge(group, base, secrets, context=b"here", entropy=entropy)
    assert len(proof) == KNOWLEDGE_BYTES
    verify_knowledge(group, base, points, proof, context=b"here")
    with pytest.raises(ProofError):
        verify_knowledge(group, base, points, proof, context=b"there")
    with pytest.raises(ProofError):
        verify_knowledge(group, group.base, points, proof, context=b"here")
    for position in range(count):
        others = list(points)
        others[position] = group.add(points[position], base)
        with pytest.raises(ProofError):
            verify_knowledge(group, base, others, proof, context=b"here")


def test_knowledge_of_two_is_knowledge_of_these_two_in_this_order(group: Group) -> None:
    entropy = SeededEntropy(b"order")
    points = [group.mul_base(5), group.mul_base(7)]
    proof = prove_knowledge(group, group.base, (5, 7), context=b"", entropy=entropy)
    with pytest.raises(ProofError):
        verify_knowledge(group, group.base, points[::-1], proof, context=b"")
    with pytest.raises(ProofError):
        verify_knowledge(group, group.base, points[:1], proof, context=b"")


def test_one_known_logarithm_does_not_pass_for_two(group: Group) -> None:
    """A prover who knows only x makes a proof for (X, X + E) or a multiple; none verifies."""
    entropy = SeededEntropy(b"rogue")
    known, victim = 5, group.mul_base(group.random_scalar(entropy))
    rogue = group.add(victim, group.mul_base(known))
    proof = prove_knowledge(group, group.base, (known, known), context=b"", entropy=entropy)
    for claimed in (rogue, victim, group.mul(victim, 2)):
        with pytest.raises(ProofError):
            verify_knowledge(
                group, group.base, (group.mul_base(known), claimed), proof, context=b""
            )


def test_equality_is_proven(group: Group) -> None:
    entropy = SeededEntropy(b"equality")
    secret = group.random_scalar(entropy)
    other = group.mul_base(group.random_scalar(entropy))
    public, shared = group.mul_base(secret), group.mul(other, secret)
    proof = prove_equality(group, secret, other, context=b"here", entropy=entropy)
    assert len(proof) == EQUALITY_BYTES
    verify_equality(group, public, other, shared, proof, context=b"here")
    wrong = group.mul_base(3)
    for statement, context in (
        ((wrong, other, shared), b"here"),
        ((public, wrong, shared), b"here"),
        ((public, other, wrong), b"here"),
        ((public, other, shared), b"there"),
    ):
        with pytest.raises(ProofError):
            verify_equality(group, *statement, proof, context=context)


@pytest.mark.parametrize("position", range(0, 64, 9))
def test_any_changed_byte_spoils_a_proof(group: Group, position: int) -> None:
    entropy = SeededEntropy(b"bytes")
    public, other, shared = (group.mul_base(scalar) for scalar in (5, 9, 45))
    known = bytearray(prove_knowledge(group, group.base, (5,), context=b"", entropy=entropy))
    equal = bytearray(prove_equality(group, 5, other, context=b"", entropy=entropy))
    known[position] ^= 0x40
    equal[position] ^= 0x40
    with pytest.raises(ProofError):
        verify_knowledge(group, group.base, (public,), bytes(known), context=b"")
    with pytest.raises(ProofError):
        verify_equality(group, public, other, shared, bytes(equal), context=b"")


def test_degenerate_proofs_are_refused(group: Group) -> None:
    """Responses that make the announcement the identity, and scalars that are not reduced."""
    zeros, huge = bytes(64), b"\xff" * 64
    for proof in (zeros, huge, b"", bytes(63), bytes(65)):
        with pytest.raises(ProofError):
            verify_knowledge(group, group.base, (group.mul_base(5),), proof, context=b"")
        with pytest.raises(ProofError):
            verify_equality(
                group, group.mul_base(5), group.base, group.mul_base(5), proof, context=b""
            )


@pytest.mark.parametrize("name", ["secp256k1", "p256"])
@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 3))
def test_reading_a_proof_raises_proof_errors_only(
    name: str, data: bytes, points: int, scalars: int
) -> None:
    reader = ProofReader(group_named(name), data)
    try:
        assert len(reader.points(points)) == points
        assert len(reader.scalars(scalars)) == scalars
        reader.end()
    except ProofError:
        return
    assert len(data) == 33 * points + 32 * scalars
