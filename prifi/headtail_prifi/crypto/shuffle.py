"""The verifiable key shuffle: one guard's step of the set-up.

Input: a base B and n keys K_i = e_i B. The guard picks a secret factor c and a permutation pi:

    B' = c B,   K'_i = c K_pi(i)

so the owner of e still finds its key as e B', and nobody else can tell which input became which
output while one guard keeps its pi and c to itself (under DDH, as for the keys of exponentiation
mixes). The proof shows that some pi and c exist, with `permutation` for u' = permuted u, and

    A = sum u_j K_j                     P -> V   T_b = w B,  T_a = w A - sum d_i K'_i
                                        V -> P   e
    z = e c + w                         V checks z B = e B' + T_b
                                        and      z A = sum a~_i K'_i + T_a

The second line extracts c A = sum u'_i K'_i. As c is fixed by B' = c B and pi by the commitments
before u is drawn, sum_i u_pi(i) (c K_pi(i) - K'_i) = 0 for random u, so every term is 0 but with
probability 2^-128. This relation is that of exponentiation mixing, not of re-encryption: a proof
for pairs of ElGamal ciphertexts would not fit it.

Cost for n keys: n + 1 multiplications to shuffle, 5n and n of the base to prove, 4n to verify;
the proof has 33 (n + 6) + 32 (2n + 2) bytes, 9,962 for 100 keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headtail_prifi.crypto.entropy import Entropy, uniform_permutation
from headtail_prifi.crypto.errors import EncodingError, ProofError
from headtail_prifi.crypto.group import POINT_BYTES, SCALAR_BYTES, Group, Point
from headtail_prifi.crypto.permutation import MIN_ITEMS, PermutationProver, PermutationVerifier
from headtail_prifi.crypto.sigma import ProofReader, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What the guard must keep to itself and forget once the proof is made."""

    factor: int = field(repr=False)
    order: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """The output of one step."""

    base: Point
    keys: tuple[Point, ...]
    witness: Witness


def shuffle(group: Group, base: Point, keys: Sequence[Point], entropy: Entropy) -> Shuffled:
    """One step. ValueError for fewer than 2 keys or repeated ones: the caller checked them."""
    if len(keys) < MIN_ITEMS or not _distinct(base, keys):
        raise ValueError(f"{len(keys)} keys, or two that are equal, can't be shuffled")
    factor = group.random_scalar(entropy)
    order = uniform_permutation(len(keys), entropy)
    return Shuffled(
        base=group.mul(base, factor),
        keys=tuple(group.mul(keys[source], factor) for source in order),
        witness=Witness(factor=factor, order=order),
    )


def prove(
    group: Group,
    base: Point,
    keys: Sequence[Point],
    shuffled: Shuffled,
    *,
    context: bytes,
    entropy: Entropy,
) -> bytes:
    """The proof that `shuffled` is a shuffle of `base` and `keys`, valid in this context only."""
    transcript = _transcript(group, base, keys, shuffled.base, shuffled.keys, context)
    prover = PermutationProver(group, transcript, shuffled.witness.order, entropy)
    nonce = group.random_scalar(entropy)
    announced = (
        group.mul(base, nonce),
        group.linear(
            (nonce, *(-mask for mask in prover.masks)),
            (group.linear(prover.weights, keys), *shuffled.keys),
        ),
    )
    transcript.add_points("factor", announced)
    challenge = transcript.challenge("e")
    responses = [*prover.respond(challenge), challenge * shuffled.witness.factor + nonce]
    return b"".join(
        [
            *(point.encode() for point in (*prover.points, *announced)),
            *map(group.encode_scalar, responses),
        ]
    )


def verify(
    group: Group,
    base: Point,
    keys: Sequence[Point],
    new_base: Point,
    new_keys: Sequence[Point],
    proof: bytes,
    *,
    context: bytes,
) -> None:
    """Raises ProofError unless the new base and keys are a shuffle of the old ones."""
    if len(keys) < MIN_ITEMS or len(keys) != len(new_keys):
        raise ProofError(f"{len(keys)} keys became {len(new_keys)}")
    if len(proof) != proof_bytes(len(keys)):
        raise ProofError(f"a shuffle proof of {len(proof)} bytes for {len(keys)} keys")
    if not _distinct(base, keys) or not _distinct(new_base, new_keys):
        raise ProofError("two keys of a shuffle are equal")
    reader = ProofReader(group, proof)
    transcript = _transcript(group, base, keys, new_base, new_keys, context)
    verifier = PermutationVerifier(group, transcript, len(keys), reader)
    announced = reader.points(2)
    transcript.add_points("factor", announced)
    challenge = transcript.challenge("e")
    openings = verifier.check(challenge, reader)
    (response,) = reader.scalars(1)
    try:
        holds = group.linear((response,), (base,)) == group.linear(
            (challenge, 1), (new_base, announced[0])
        ) and group.mul(group.linear(verifier.weights, keys), response) == group.linear(
            (1, *openings), (announced[1], *new_keys)
        )
    except EncodingError:
        raise ProofError("a shuffle proof is degenerate") from None
    if not holds:
        raise ProofError("a shuffle proof does not hold: not one factor for all keys")


def proof_bytes(count: int) -> int:
    """The size of a proof for `count` keys."""
    return POINT_BYTES * (count + 6) + SCALAR_BYTES * (2 * count + 2)


def _distinct(base: Point, keys: Sequence[Point]) -> bool:
    return len({base, *keys}) == len(keys) + 1


def _transcript(
    group: Group,
    base: Point,
    keys: Sequence[Point],
    new_base: Point,
    new_keys: Sequence[Point],
    context: bytes,
) -> Transcript:
    transcript = Transcript(group, "prifi/key shuffle", context)
    transcript.add_points("before", (base, *keys))
    transcript.add_points("after", (new_base, *new_keys))
    return transcript
