"""Proofs of knowledge made non-interactive: a transcript, Schnorr's proof, Chaum and Pedersen's.

Every proof is bound to a context (bytes that name epoch, roster, role and purpose): a proof copied
into another context does not verify.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import EncodingError, ProofError
from headtail_prifi.crypto.group import POINT_BYTES, SCALAR_BYTES, Group, Point

T = TypeVar("T")

KNOWLEDGE_BYTES: Final = 2 * SCALAR_BYTES
EQUALITY_BYTES: Final = 2 * SCALAR_BYTES


class Transcript:
    """What both sides of a proof have seen, hashed; challenges come from all of it so far.

    Each item is absorbed as length-prefixed label and length-prefixed bytes, so two different
    sequences of items never give one hash input. A challenge is itself absorbed, with its label.
    """

    def __init__(self, group: Group, purpose: str, context: bytes) -> None:
        self._group = group
        self._hash = hashlib.sha512()
        self.add("purpose", purpose.encode())
        self.add("group", group.name.encode())
        self.add("context", context)

    def add(self, label: str, data: bytes) -> None:
        """Absorb bytes."""
        name = label.encode()
        self._hash.update(len(name).to_bytes(2) + name + len(data).to_bytes(8) + data)

    def add_points(self, label: str, points: Sequence[Point]) -> None:
        """Absorb a list of points, with its length."""
        self.add(label, b"".join(point.encode() for point in points))

    def add_scalars(self, label: str, scalars: Sequence[int]) -> None:
        """Absorb a list of scalars, with its length."""
        self.add(label, b"".join(map(self._group.encode_scalar, scalars)))

    def challenge(self, label: str) -> int:
        """One challenge (`Group.hash_to_challenge`)."""
        return self.challenges(label, 1)[0]

    def challenges(self, label: str, count: int) -> tuple[int, ...]:
        """`count` independent challenges."""
        self.add("challenges", label.encode())
        seed = self._hash.digest()
        self.add("seed", seed)
        return tuple(
            self._group.hash_to_challenge("challenge", seed + index.to_bytes(4))
            for index in range(count)
        )


class ProofReader:
    """Takes a proof apart; whatever is wrong with its bytes is a ProofError."""

    def __init__(self, group: Group, proof: bytes) -> None:
        self._group = group
        self._proof = proof
        self._at = 0

    def points(self, count: int) -> list[Point]:
        """The next `count` points."""
        return [self._decode(self._group.decode, POINT_BYTES) for _ in range(count)]

    def scalars(self, count: int) -> list[int]:
        """The next `count` scalars."""
        return [self._decode(self._group.decode_scalar, SCALAR_BYTES) for _ in range(count)]

    def end(self) -> None:
        """Raises ProofError when something is left."""
        if self._at != len(self._proof):
            raise ProofError(f"{len(self._proof) - self._at} bytes too many in a proof")

    def _decode(self, decode: Callable[[bytes], T], size: int) -> T:
        data = self._proof[self._at : self._at + size]
        self._at += size
        try:
            return decode(data)
        except EncodingError as error:
            raise ProofError(f"a malformed proof: {error.message}") from None


def prove_knowledge(
    group: Group, base: Point, secrets: Sequence[int], *, context: bytes, entropy: Entropy
) -> bytes:
    """Knowledge of the discrete logarithms of all `secrets` times `base`, to that base.

    Schnorr's proof (Crypto '89), batched for k statements (Gennaro et al., Asiacrypt 2004, 3):
    W = w base, c hashes everything, s = w - sum c^i x_i for i = 1 .. k. The verifier finds W again
    as s base + sum c^i X_i. For one W, k + 1 challenges give s as a polynomial in c, and with it
    every x_i. The proof is c and s, 64 bytes.
    """
    points = [group.linear((secret,), (base,)) for secret in secrets]
    nonce = group.random_scalar(entropy)
    announced = group.linear((nonce,), (base,))
    challenge = _knowledge_challenge(group, base, points, announced, context)
    response = nonce - sum(
        power * secret
        for power, secret in zip(_powers(group, challenge, len(secrets)), secrets, strict=True)
    )
    return group.encode_scalar(challenge) + group.encode_scalar(response)


def verify_knowledge(
    group: Group, base: Point, points: Sequence[Point], proof: bytes, *, context: bytes
) -> None:
    """Raises ProofError unless the prover knew every discrete logarithm, in this context."""
    challenge, response = _scalars(group, proof, 2)
    try:
        powers = _powers(group, challenge, len(points))
        announced = group.linear((response, *powers), (base, *points))
    except EncodingError:
        raise ProofError("a proof of knowledge is degenerate") from None
    if challenge != _knowledge_challenge(group, base, points, announced, context):
        raise ProofError("a proof of knowledge does not hold")


def _powers(group: Group, challenge: int, count: int) -> list[int]:
    return [pow(challenge, exponent, group.order) for exponent in range(1, count + 1)]


def _knowledge_challenge(
    group: Group,
    base: Point,
    points: Sequence[Point],
    announced: Point,
    context: bytes,
) -> int:
    transcript = Transcript(group, "prifi/knowledge", context)
    transcript.add_points("base", (base,))
    transcript.add_points("statements", points)
    transcript.add_points("announcement", (announced,))
    return transcript.challenge("c")


def prove_equality(
    group: Group, secret: int, other_base: Point, *, context: bytes, entropy: Entropy
) -> bytes:
    """That `secret` times the base and `secret` times `other_base` have one logarithm (DLEQ).

    Chaum and Pedersen (Crypto '92): c and s = w - c * secret, 32 bytes each. In blame, where a
    client opens its secret with guard j, `other_base` is the guard's public key.
    """
    nonce = group.random_scalar(entropy)
    challenge = _equality_challenge(
        group,
        (group.mul_base(secret), other_base, group.mul(other_base, secret)),
        (group.mul_base(nonce), group.mul(other_base, nonce)),
        context,
    )
    return group.encode_scalar(challenge) + group.encode_scalar(nonce - challenge * secret)


def verify_equality(
    group: Group, public: Point, other_base: Point, shared: Point, proof: bytes, *, context: bytes
) -> None:
    """Raises ProofError unless log(public, base) = log(shared, other_base), in this context."""
    challenge, response = _scalars(group, proof, 2)
    try:
        announced = (
            group.linear((response, challenge), (group.base, public)),
            group.linear((response, challenge), (other_base, shared)),
        )
    except EncodingError:
        raise ProofError("a proof of equality is degenerate") from None
    if challenge != _equality_challenge(group, (public, other_base, shared), announced, context):
        raise ProofError("a proof of equal logarithms does not hold")


def _equality_challenge(
    group: Group, statement: Sequence[Point], announced: Sequence[Point], context: bytes
) -> int:
    transcript = Transcript(group, "prifi/equality", context)
    transcript.add_points("statement", statement)
    transcript.add_points("announcements", announced)
    return transcript.challenge("c")


def _scalars(group: Group, proof: bytes, count: int) -> list[int]:
    reader = ProofReader(group, proof)
    scalars = reader.scalars(count)
    reader.end()
    return scalars
