"""The verifiable key shuffle (5.1-7): honest runs, every kind of cheating, and uniformity."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.group import POINT_BYTES, SCALAR_BYTES, Group, Point, group_named
from headtail_prifi.crypto.permutation import (
    PermutationProver,
    PermutationVerifier,
    generators,
)
from headtail_prifi.crypto.shuffle import Shuffled, Witness, proof_bytes, prove, shuffle, verify
from headtail_prifi.crypto.sigma import ProofReader, Transcript

VECTORS = json.loads(
    (Path(__file__).parent.parent / "vectors" / "prifi-shuffle-v1.json").read_text()
)
CONTEXT = b"epoch 1, guard 0"


class Case:
    """A shuffle of a few keys whose secrets are known, and its proof."""

    def __init__(self, group: Group, count: int = 4, seed: bytes = b"case") -> None:
        self.group = group
        self.entropy = SeededEntropy(seed)
        self.secrets = [group.random_scalar(self.entropy) for _ in range(count)]
        self.base = group.mul_base(group.random_scalar(self.entropy))
        self.keys = [group.mul(self.base, secret) for secret in self.secrets]
        self.shuffled = shuffle(group, self.base, self.keys, self.entropy)
        self.proof = self.prove(self.shuffled)

    def prove(self, shuffled: Shuffled, context: bytes = CONTEXT) -> bytes:
        return prove(
            self.group, self.base, self.keys, shuffled, context=context, entropy=self.entropy
        )

    def verify(self, shuffled: Shuffled, proof: bytes, context: bytes = CONTEXT) -> None:
        verify(
            self.group,
            self.base,
            self.keys,
            shuffled.base,
            shuffled.keys,
            proof,
            context=context,
        )

    def refused(self, shuffled: Shuffled) -> None:
        """Neither the old proof nor a new one for this output is accepted."""
        with pytest.raises(ProofError):
            self.verify(shuffled, self.proof)
        with pytest.raises(ProofError):
            self.verify(shuffled, self.prove(shuffled))


@pytest.fixture(params=["secp256k1", "p256"])
def case(request: pytest.FixtureRequest) -> Case:
    return Case(group_named(request.param))


# -- honest ----------------------------------------------------------------------------------------


def test_p7_owners_find_their_keys_and_nobody_else_does(case: Case) -> None:
    owned = [case.group.mul(case.shuffled.base, secret) for secret in case.secrets]
    assert sorted(map(Point.encode, owned)) == sorted(map(Point.encode, case.shuffled.keys))
    assert len(set(case.shuffled.keys)) == len(case.keys)
    assert not set(case.shuffled.keys) & set(case.keys)


def test_p7_an_honest_proof_holds_and_has_the_announced_size(case: Case) -> None:
    case.verify(case.shuffled, case.proof)
    assert len(case.proof) == proof_bytes(4)
    assert proof_bytes(100) == 9962


@pytest.mark.parametrize("name", ["secp256k1", "p256"])
@settings(max_examples=12, deadline=None)
@given(st.integers(2, 7), st.binary(max_size=8))
def test_p7_every_size_works(name: str, count: int, seed: bytes) -> None:
    case = Case(group_named(name), count, seed)
    case.verify(case.shuffled, case.proof)


def test_p7_the_shuffles_of_three_guards_chain(case: Case) -> None:
    group, base, keys = case.group, case.base, case.keys
    for guard in range(3):
        context = bytes([guard])
        step = shuffle(group, base, keys, case.entropy)
        proof = prove(group, base, keys, step, context=context, entropy=case.entropy)
        verify(group, base, keys, step.base, step.keys, proof, context=context)
        base, keys = step.base, list(step.keys)
    owned = {group.mul(base, secret) for secret in case.secrets}
    assert owned == set(keys)


def test_p7_both_backends_shuffle_alike() -> None:
    """Differential: what does not depend on the curve is the same from one seed."""
    one, other = (Case(group_named(name), 6) for name in ("secp256k1", "p256"))
    assert one.shuffled.witness.order == other.shuffled.witness.order
    assert len(one.proof) == len(other.proof)


def test_p7_the_witness_is_not_shown(case: Case) -> None:
    assert repr(case.shuffled.witness) == "Witness()"


@pytest.mark.parametrize("vector", VECTORS["shuffles"], ids=lambda vector: vector["group"])
def test_p7_proofs_are_frozen(vector: dict[str, str]) -> None:
    case = Case(group_named(vector["group"]), 3, vector["seed"].encode())
    assert case.shuffled.base.encode().hex() == vector["base"]
    assert b"".join(map(Point.encode, case.shuffled.keys)).hex() == vector["keys"]
    assert case.proof.hex() == vector["proof"]
    case.verify(case.shuffled, bytes.fromhex(vector["proof"]))


# -- cheating --------------------------------------------------------------------------------------


def test_p7_a_replaced_key_is_refused(case: Case) -> None:
    keys = list(case.shuffled.keys)
    keys[1] = case.group.mul_base(12345)
    case.refused(replace(case.shuffled, keys=tuple(keys)))


def test_p7_a_marked_key_is_refused(case: Case) -> None:
    """Another factor for one key would let the guard recognise it later."""
    keys = list(case.shuffled.keys)
    keys[2] = case.group.mul(keys[2], 2)
    case.refused(replace(case.shuffled, keys=tuple(keys)))


def test_p7_two_keys_marked_against_each_other_are_refused(case: Case) -> None:
    """The sum of all keys stays the same, so only the random weights show it."""
    group, keys = case.group, list(case.shuffled.keys)
    mark = group.mul_base(777)
    keys[0] = group.add(keys[0], mark)
    keys[1] = group.add(keys[1], group.negate(mark))
    case.refused(replace(case.shuffled, keys=tuple(keys)))


def test_p7_a_duplicated_key_is_refused(case: Case) -> None:
    keys = (case.shuffled.keys[0], *case.shuffled.keys[:-1])
    case.refused(replace(case.shuffled, keys=keys))


def test_p7_a_dropped_or_added_key_is_refused(case: Case) -> None:
    for keys in (case.shuffled.keys[:-1], (*case.shuffled.keys, case.group.mul_base(5))):
        with pytest.raises(ProofError, match="4 keys became"):
            case.verify(replace(case.shuffled, keys=keys), case.proof)


def test_p7_a_wrong_base_is_refused(case: Case) -> None:
    group = case.group
    for base in (case.base, group.base, group.mul(case.shuffled.base, 2)):
        case.refused(replace(case.shuffled, base=base))


def test_p7_the_base_among_the_keys_is_refused(case: Case) -> None:
    keys = (case.shuffled.base, *case.shuffled.keys[1:])
    with pytest.raises(ProofError, match="equal"):
        case.verify(replace(case.shuffled, keys=keys), case.proof)


def test_p7_another_order_than_the_proven_one_is_refused(case: Case) -> None:
    keys = (case.shuffled.keys[1], case.shuffled.keys[0], *case.shuffled.keys[2:])
    case.refused(replace(case.shuffled, keys=keys))


def test_p7_a_wrong_factor_or_order_in_the_witness_proves_nothing(case: Case) -> None:
    witness = case.shuffled.witness
    reordered = (witness.order[1], witness.order[0], *witness.order[2:])
    for wrong in (
        Witness(factor=witness.factor + 1, order=witness.order),
        Witness(factor=witness.factor, order=reordered),
    ):
        with pytest.raises(ProofError):
            case.verify(case.shuffled, case.prove(replace(case.shuffled, witness=wrong)))


def test_p7_a_proof_of_another_epoch_or_guard_is_refused(case: Case) -> None:
    for context in (b"", b"epoch 2, guard 0", b"epoch 1, guard 1"):
        with pytest.raises(ProofError):
            case.verify(case.shuffled, case.proof, context=context)


def test_p7_a_proof_of_another_shuffle_is_refused(case: Case) -> None:
    again = shuffle(case.group, case.base, case.keys, case.entropy)
    with pytest.raises(ProofError):
        case.verify(again, case.proof)


def test_p7_no_shuffle_at_all_is_refused(case: Case) -> None:
    identity = Shuffled(
        base=case.base, keys=tuple(case.keys), witness=replace(case.shuffled.witness, factor=1)
    )
    case.refused(identity)


def test_p7_any_changed_part_of_a_proof_spoils_it(case: Case) -> None:
    group, count = case.group, len(case.keys)
    points = (count + 6) * POINT_BYTES
    parts = [
        *(slice(at, at + POINT_BYTES) for at in range(0, points, POINT_BYTES)),
        *(slice(at, at + SCALAR_BYTES) for at in range(points, len(case.proof), SCALAR_BYTES)),
    ]
    assert len(parts) == count + 6 + 2 * count + 2
    for part in parts:
        old = case.proof[part]
        if len(old) == POINT_BYTES:
            new = group.add(group.decode(old), group.base).encode()
        else:
            new = group.encode_scalar(group.decode_scalar(old) + 1)
        damaged = case.proof[: part.start] + new + case.proof[part.stop :]
        with pytest.raises(ProofError):
            case.verify(case.shuffled, damaged)


def test_p7_identity_and_bad_encodings_in_a_proof_are_refused(case: Case) -> None:
    for bad in (bytes(POINT_BYTES), b"\x04" + case.proof[1:POINT_BYTES], b"\xff" * POINT_BYTES):
        with pytest.raises(ProofError, match="malformed"):
            case.verify(case.shuffled, bad + case.proof[POINT_BYTES:])
    unreduced = case.group.order.to_bytes(SCALAR_BYTES)
    with pytest.raises(ProofError, match="malformed"):
        case.verify(case.shuffled, case.proof[:-SCALAR_BYTES] + unreduced)


def test_p7_a_proof_of_zeros_is_degenerate(case: Case) -> None:
    points = case.proof[: 10 * POINT_BYTES]
    with pytest.raises(ProofError):
        case.verify(case.shuffled, points.ljust(len(case.proof), b"\0"))


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=700))
def test_p7_any_bytes_give_a_proof_error(data: bytes) -> None:
    case = Case(group_named("secp256k1"), 2)
    for proof in (data, data[: proof_bytes(2)].ljust(proof_bytes(2), b"\2")):
        with pytest.raises(ProofError):
            case.verify(case.shuffled, proof)


def test_p7_what_can_not_be_shuffled_is_refused(case: Case) -> None:
    group = case.group
    for keys in (case.keys[:1], [case.keys[0], case.keys[0]], [case.base, case.keys[0]]):
        with pytest.raises(ValueError, match="can't be shuffled"):
            shuffle(group, case.base, keys, case.entropy)
    with pytest.raises(ProofError, match="1 keys"):
        verify(group, case.base, case.keys[:1], case.base, case.keys[:1], b"", context=b"")


class _Matrix(PermutationProver):
    """A cheating prover that commits to an arbitrary matrix; `rows[i][j]` weighs input j."""

    rows: Sequence[Sequence[int]] = ()

    def _columns(self, blinds: Sequence[int]) -> list[Point]:
        group, count = self._group, len(self.rows)
        h = generators(group.name, count)
        return [
            group.linear(
                (blinds[source], *(self.rows[output][source] for output in range(count))),
                (group.base, *h),
            )
            for source in range(count)
        ]

    def _permuted(self) -> list[int]:
        return [
            sum(entry * weight for entry, weight in zip(row, self.weights, strict=True))
            % self._group.order
            for row in self.rows
        ]


@pytest.mark.parametrize(
    ("rows", "accepted"),
    [
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], True),
        ([[2, -1, 0], [0, 1, 0], [0, 0, 1]], False),
        ([[1, 0, 0], [1, 0, 0], [0, 0, 1]], False),
        ([[1, 0, 0], [0, 0, 0], [0, 1, 1]], False),
        ([[0, 2, 0], [3, 0, 0], [0, 0, 1]], False),
        ([[0, -1, 0], [-1, 0, 0], [0, 0, 1]], False),
    ],
    ids=["permutation", "mixture", "copy", "lost", "scaled", "signs"],
)
def test_p7_only_permutation_matrices_pass(rows: list[list[int]], accepted: bool) -> None:
    """Rows that add up to one, products that match, each alone is not enough."""
    group, entropy = group_named("secp256k1"), SeededEntropy(b"matrix")
    prover_type = type("Prover", (_Matrix,), {"rows": rows})
    proving = Transcript(group, "test", b"")
    prover = prover_type(group, proving, range(3), entropy)
    responses = prover.respond(proving.challenge("e"))
    proof = b"".join(
        [*map(Point.encode, prover.points), *map(group.encode_scalar, responses)],
    )
    reader, verifying = ProofReader(group, proof), Transcript(group, "test", b"")
    verifier = PermutationVerifier(group, verifying, 3, reader)
    challenge = verifying.challenge("e")
    if accepted:
        verifier.check(challenge, reader)
        reader.end()
    else:
        with pytest.raises(ProofError, match="not a permutation"):
            verifier.check(challenge, reader)


# -- uniformity ------------------------------------------------------------------------------------


def chi_square(draws: int) -> float:
    """Of the order of 3 keys over `draws` shuffles; 5 degrees of freedom."""
    group, entropy = group_named("secp256k1"), SeededEntropy(b"uniform")
    secrets = (3, 5, 7)
    keys = [group.mul_base(secret) for secret in secrets]
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        step = shuffle(group, group.base, keys, entropy)
        owned = [group.mul(step.base, secret) for secret in secrets]
        seen[tuple(owned.index(key) for key in step.keys)] += 1
    expected = draws / 6
    return sum((seen[order] - expected) ** 2 / expected for order in permutations(range(3)))


def test_p7_the_permutation_is_uniform() -> None:
    """25.7 is exceeded once in 10,000 runs."""
    assert chi_square(1500) < 25.7


@pytest.mark.long
def test_p7_the_permutation_is_uniform_over_10000_shuffles() -> None:
    assert chi_square(10_000) < 25.7
