"""The chain of shuffles, guard after guard, from the clients' pseudonym keys to the slots."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.group import Group, Point
from headtail_prifi.crypto.shuffle import Shuffled, prove, shuffle, verify
from headtail_prifi.setup.errors import (
    MessageError,
    ShuffleRefusedError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.messages import (
    Outcome,
    ShuffleProof,
    ShuffleStep,
    decode_point,
    join_points,
    split_points,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A base and the keys to it."""

    base: Point
    keys: tuple[Point, ...] = field(repr=False)


class ShuffleChain:
    """Link 0 is the group's base with the clients' keys, link j + 1 what guard j made of link j.

    Every proof is bound to the epoch and to its guard.
    """

    def __init__(self, group: Group, epoch_id: bytes, keys: Sequence[Point]) -> None:
        self._group = group
        self._epoch_id = epoch_id
        self._links = [Link(base=group.base, keys=tuple(keys))]

    @property
    def next_guard(self) -> int:
        """Whose turn it is: the number of links made so far."""
        return len(self._links) - 1

    @property
    def last(self) -> Link:
        """The end of the chain."""
        return self._links[-1]

    def add(self, step: ShuffleStep) -> None:
        """Takes the next guard's step.

        Raises UnexpectedMessageError out of turn, and ShuffleRefusedError when a point is bad, or
        keys are missing or repeated; the proof comes later. Then nothing is kept.
        """
        if step.guard != self.next_guard:
            raise UnexpectedMessageError(f"{step.author!r} shuffles out of turn")
        try:
            base = decode_point(self._group, step.base)
            keys = split_points(self._group, step.keys, len(self.last.keys))
        except MessageError as error:
            raise ShuffleRefusedError(
                f"{step.author!r}: {error.message}", author=step.author
            ) from None
        if len({base, *keys}) != len(keys) + 1:
            raise ShuffleRefusedError(f"{step.author!r} repeats a key", author=step.author)
        self._links.append(Link(base=base, keys=keys))

    def shuffle(self, entropy: Entropy) -> Shuffled:
        """Makes the next link; the caller has the turn."""
        shuffled = shuffle(self._group, self.last.base, self.last.keys, entropy)
        self._links.append(Link(base=shuffled.base, keys=shuffled.keys))
        return shuffled

    def step(self, guard: int) -> ShuffleStep:
        """The message that tells of a guard's link."""
        link = self._links[guard + 1]
        return ShuffleStep(
            epoch_id=self._epoch_id,
            guard=guard,
            base=link.base.encode(),
            keys=join_points(link.keys),
        )

    def prove(self, guard: int, shuffled: Shuffled, entropy: Entropy) -> ShuffleProof:
        """The proof of a guard's own link."""
        before = self._links[guard]
        proof = prove(
            self._group,
            before.base,
            before.keys,
            shuffled,
            context=self._context(guard),
            entropy=entropy,
        )
        return ShuffleProof(epoch_id=self._epoch_id, guard=guard, proof=proof)

    def verify(self, proof: ShuffleProof) -> None:
        """Raises ShuffleRefusedError unless the proof holds for its guard's link, which is here."""
        before, after = self._links[proof.guard], self._links[proof.guard + 1]
        try:
            verify(
                self._group,
                before.base,
                before.keys,
                after.base,
                after.keys,
                proof.proof,
                context=self._context(proof.guard),
            )
        except ProofError as error:
            raise ShuffleRefusedError(
                f"{proof.author!r}: {error.message}", author=proof.author
            ) from None

    def outcome(self, client_keys: Sequence[Point]) -> Outcome:
        """What the set-up comes to, once every guard's link is in."""
        return Outcome(
            epoch_id=self._epoch_id,
            client_keys=join_points(client_keys),
            base=self.last.base.encode(),
            slots=join_points(self.last.keys),
        )

    def _context(self, guard: int) -> bytes:
        return b"prifi/setup shuffle\0" + self._epoch_id + guard.to_bytes(2)
