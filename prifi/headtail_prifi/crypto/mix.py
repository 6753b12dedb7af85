"""The accusation shuffle: every client submits one sealed message, the guards mix and open them.

Used when accusations inside the DC-net are jammed (as in Dissent, CCS 2010 and OSDI 2012). Each
guard j has a mix key Z_j = z_j g of the epoch (`Epoch.accusation_keys`), its knowledge proven in
the set-up; messages are encrypted to the joint key Z = sum Z_j by ElGamal, `EMBED_BYTES` bytes to
a pair of points:

    submit     (a, b) = (t g, M + t Z) per block, with a proof of knowledge of all t
    mix        guard by guard: rows permuted, each pair re-encrypted: (a + s g, b + s Z); proven
    unmask     guard j gives z_j a for each pair of the last rows, and proves all of them at once
    open       M = b - sum_j z_j a

**A mix key is never a guard's Diffie-Hellman key**: unmasking computes z_j a for points that
clients choose, and with a = X_i it would hand out the pad secret of client i. The proof with a
submission keeps a client from copying another's row, changed or not, to see it twice, and from
using a guard as a decryption oracle, so one mix key serves all accusation shuffles of its epoch.

Mix proof. With `permutation` for u' = permuted u, and for each block, S = sum_i u'_i s_i:

    P -> V   T_a = sum d_i a'_i - w g,  T_b = sum d_i b'_i - w Z
    V -> P   e
    z = e S + w;  V checks  sum a~_i a'_i = e sum u_j a_j + z g + T_a,  and with b', b, Z, T_b

which extracts sum u'_i a'_i = sum u_j a_j + S g (b alike, with the same S): for random u each row
is a re-encryption of the row that pi names. One permutation serves all blocks, so rows stay whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headtail_prifi.crypto.entropy import Entropy, uniform_permutation
from headtail_prifi.crypto.errors import EncodingError, ProofError
from headtail_prifi.crypto.group import EMBED_BYTES, Group, Point
from headtail_prifi.crypto.permutation import MIN_ITEMS, PermutationProver, PermutationVerifier
from headtail_prifi.crypto.sigma import (
    ProofReader,
    Transcript,
    prove_equality,
    prove_knowledge,
    verify_equality,
    verify_knowledge,
)

LENGTH_BYTES = 2


class Pair(NamedTuple):
    """An ElGamal ciphertext of one block."""

    ephemeral: Point
    masked: Point


Row = tuple[Pair, ...]
"""One client's message: as many blocks as everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """One guard's output and, until the proof is made, how it was made."""

    rows: tuple[Row, ...]
    order: tuple[int, ...] = field(repr=False)
    blinds: tuple[tuple[int, ...], ...] = field(repr=False)


def capacity_bytes(blocks: int) -> int:
    """The longest message that fits into a row of `blocks` blocks."""
    return blocks * EMBED_BYTES - LENGTH_BYTES


def submit(
    group: Group, key: Point, message: bytes, blocks: int, *, context: bytes, entropy: Entropy
) -> tuple[Row, bytes]:
    """A client's row under the joint key, and its proof; all rows of one width look alike.

    The context names epoch, shuffle and client. ValueError when the message is too long.
    """
    if len(message) > capacity_bytes(blocks):
        raise ValueError(f"{len(message)} bytes in {blocks} blocks")
    padded = (len(message).to_bytes(LENGTH_BYTES) + message).ljust(blocks * EMBED_BYTES, b"\0")
    secrets = [group.random_scalar(entropy) for _ in range(blocks)]
    row = tuple(
        Pair(
            group.mul_base(secret),
            group.add(
                group.embed(padded[block * EMBED_BYTES : (block + 1) * EMBED_BYTES]),
                group.mul(key, secret),
            ),
        )
        for block, secret in enumerate(secrets)
    )
    bound = _bind(row, context)
    return row, prove_knowledge(group, group.base, secrets, context=bound, entropy=entropy)


def verify_submission(group: Group, row: Row, proof: bytes, *, context: bytes) -> None:
    """Raises ProofError unless the row's author made it, in this context."""
    ephemerals = [pair.ephemeral for pair in row]
    verify_knowledge(group, group.base, ephemerals, proof, context=_bind(row, context))


def mix(group: Group, key: Point, rows: Sequence[Row], entropy: Entropy) -> Mixed:
    """One guard's step; at least 2 rows, all of one width."""
    if len(rows) < MIN_ITEMS or len({len(row) for row in rows}) != 1:
        raise ValueError("rows that can't hide one another")
    order = uniform_permutation(len(rows), entropy)
    blinds = tuple(tuple(group.random_scalar(entropy) for _ in row) for row in rows)
    mixed = tuple(
        tuple(
            Pair(
                group.add(pair.ephemeral, group.mul_base(blind)),
                group.add(pair.masked, group.mul(key, blind)),
            )
            for pair, blind in zip(rows[source], blinds[output], strict=True)
        )
        for output, source in enumerate(order)
    )
    return Mixed(rows=mixed, order=order, blinds=blinds)


def prove_mix(
    group: Group,
    key: Point,
    rows: Sequence[Row],
    mixed: Mixed,
    *,
    context: bytes,
    entropy: Entropy,
) -> bytes:
    """The proof that `mixed` holds the same messages as `rows`, valid in this context only."""
    transcript = _transcript(group, key, rows, mixed.rows, context)
    prover = PermutationProver(group, transcript, mixed.order, entropy)
    blocks = range(len(rows[0]))
    nonces = [group.random_scalar(entropy) for _ in blocks]
    announced = []
    for block, nonce in zip(blocks, nonces, strict=True):
        for base, column in zip((group.base, key), _columns(mixed.rows, block), strict=True):
            announced.append(group.linear((*prover.masks, -nonce), (*column, base)))
    transcript.add_points("blinds", announced)
    challenge = transcript.challenge("e")
    responses = prover.respond(challenge)
    for block, nonce in zip(blocks, nonces, strict=True):
        total = sum(
            weight * blinds[block]
            for weight, blinds in zip(prover.output_weights, mixed.blinds, strict=True)
        )
        responses.append(challenge * total + nonce)
    return b"".join(
        [
            *(point.encode() for point in (*prover.points, *announced)),
            *map(group.encode_scalar, responses),
        ]
    )


def verify_mix(
    group: Group,
    key: Point,
    rows: Sequence[Row],
    mixed: Sequence[Row],
    proof: bytes,
    *,
    context: bytes,
) -> None:
    """Raises ProofError unless the mixed rows hold the same messages."""
    widths = {len(row) for row in (*rows, *mixed)}
    if len(rows) < MIN_ITEMS or len(rows) != len(mixed) or len(widths) != 1:
        raise ProofError(f"{len(rows)} rows became {len(mixed)}, or rows differ in width")
    reader = ProofReader(group, proof)
    transcript = _transcript(group, key, rows, mixed, context)
    verifier = PermutationVerifier(group, transcript, len(rows), reader)
    blocks = range(widths.pop())
    announced = reader.points(2 * len(blocks))
    transcript.add_points("blinds", announced)
    challenge = transcript.challenge("e")
    openings = verifier.check(challenge, reader)
    responses = reader.scalars(len(blocks))
    reader.end()
    for block, response in zip(blocks, responses, strict=True):
        sides = zip(
            (group.base, key),
            _columns(rows, block),
            _columns(mixed, block),
            announced[2 * block : 2 * block + 2],
            strict=True,
        )
        for base, before, after, announcement in sides:
            try:
                opened = group.linear(openings, after)
                weighted = group.linear(verifier.weights, before)
                claimed = group.linear((challenge, response, 1), (weighted, base, announcement))
            except EncodingError:
                raise ProofError("a mix proof is degenerate") from None
            if opened != claimed:
                raise ProofError("a mix proof does not hold: a message was changed")


def unmask(
    group: Group, secret: int, rows: Sequence[Row], *, context: bytes, entropy: Entropy
) -> tuple[tuple[Point, ...], bytes]:
    """A guard's shares z_j a, row by row and block by block, and one proof for all.

    The proof is that of equal logarithms for random weights: log(Z_j, g) = log(sum v share, sum
    v a), where v hashes everything; a wrong share passes with probability 2^-128.
    """
    shares = tuple(group.mul(pair.ephemeral, secret) for row in rows for pair in row)
    public = group.mul_base(secret)
    combined, _ = _weighted(group, public, rows, shares, context)
    return shares, prove_equality(group, secret, combined, context=context, entropy=entropy)


def verify_unmask(
    group: Group,
    public: Point,
    rows: Sequence[Row],
    shares: Sequence[Point],
    proof: bytes,
    *,
    context: bytes,
) -> None:
    """Raises ProofError unless every share is the guard's."""
    if len(shares) != sum(map(len, rows)):
        raise ProofError(f"{len(shares)} shares for {sum(map(len, rows))} blocks")
    combined, shared = _weighted(group, public, rows, shares, context)
    verify_equality(group, public, combined, shared, proof, context=context)


def open_rows(
    group: Group, rows: Sequence[Row], shares: Sequence[Sequence[Point]]
) -> tuple[bytes | None, ...]:
    """The messages, given the verified shares of every guard; None for a row that holds none.

    Whatever a hostile client submitted, it costs only its own row.
    """
    totals = [group.sum(parts) for parts in zip(*shares, strict=True)]
    messages = []
    for number, row in enumerate(rows):
        masks = totals[number * len(row) : (number + 1) * len(row)]
        messages.append(_open(group, row, masks))
    return tuple(messages)


def _open(group: Group, row: Row, masks: Sequence[Point]) -> bytes | None:
    try:
        padded = b"".join(
            group.extract(group.add(pair.masked, group.negate(mask)))
            for pair, mask in zip(row, masks, strict=True)
        )
    except EncodingError:
        return None
    size = int.from_bytes(padded[:LENGTH_BYTES])
    body = padded[LENGTH_BYTES:]
    return None if size > len(body) or any(body[size:]) else body[:size]


def _columns(rows: Sequence[Row], block: int) -> tuple[list[Point], list[Point]]:
    pairs = [row[block] for row in rows]
    return [pair.ephemeral for pair in pairs], [pair.masked for pair in pairs]


def _flat(rows: Sequence[Row]) -> list[Point]:
    return [point for row in rows for pair in row for point in pair]


def _bind(row: Row, context: bytes) -> bytes:
    return context + b"".join(point.encode() for point in _flat([row]))


def _transcript(
    group: Group, key: Point, rows: Sequence[Row], mixed: Sequence[Row], context: bytes
) -> Transcript:
    transcript = Transcript(group, "prifi/mix", context)
    transcript.add("width", len(rows[0]).to_bytes(4))
    transcript.add_points("key", (key,))
    transcript.add_points("before", _flat(rows))
    transcript.add_points("after", _flat(mixed))
    return transcript


def _weighted(
    group: Group, public: Point, rows: Sequence[Row], shares: Sequence[Point], context: bytes
) -> tuple[Point, Point]:
    transcript = Transcript(group, "prifi/unmask", context)
    ephemerals = [pair.ephemeral for row in rows for pair in row]
    transcript.add_points("key", (public,))
    transcript.add_points("ephemerals", ephemerals)
    transcript.add_points("shares", shares)
    weights = transcript.challenges("weights", len(shares))
    try:
        return group.linear(weights, ephemerals), group.linear(weights, shares)
    except EncodingError:
        raise ProofError("a proof of unmasking is degenerate") from None
