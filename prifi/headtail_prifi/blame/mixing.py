"""The accusation shuffle: how an accusation gets out when its cells are jammed.

Every client of the membership submits one row (an accusation, or nothing), the guards mix and
prove in turn, check one another from the first row to the last, and open what comes out. The relay
sees accusations without their authors; a client that has none does the same as one that has.

A guard mixes once per number and opens only rows that follow, step by proven step, from its own
mix of submissions that their clients signed. So the relay can't have it open a row unmixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headtail_prifi.blame.accusation import PACKED_BYTES
from headtail_prifi.blame.case import seat_key
from headtail_prifi.blame.messages import (
    MIX_BLOCKS,
    MIX_ROW_BYTES,
    Call,
    Mix,
    Mixed,
    Shares,
    Submit,
    Unmask,
    sign_frame,
    verify_frame,
)
from headtail_prifi.core.body import B, decode_body
from headtail_prifi.core.errors import UnexpectedFrameError
from headtail_prifi.core.header import Buffer, Header, Kind, read_header, short_id
from headtail_prifi.core.seat import Seat, client_seat, guard_seat
from headtail_prifi.crypto import mix
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.group import POINT_BYTES, Group, Point
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.epoch import Epoch, GuardSecrets
from headtail_prifi.setup.roster import Membership

NOTHING: Final = b""

assert mix.capacity_bytes(MIX_BLOCKS) >= PACKED_BYTES


@dataclass(frozen=True, slots=True)
class Shuffle:
    """One accusation shuffle: the `number`-th of the epoch, among the clients of a membership."""

    epoch: Epoch
    membership: Membership
    number: int

    @property
    def key(self) -> Point:
        """The joint key of all guards."""
        return self.epoch.group.sum(self.epoch.accusation_keys)

    def context(self, seat: Seat) -> bytes:
        """What the proofs of one party in this shuffle are bound to."""
        numbers = self.membership.version.to_bytes(4) + self.number.to_bytes(4)
        return b"prifi/accusation shuffle\0" + self.epoch.epoch_id + numbers + seat.encode()

    def header(self, kind: Kind, seat: Seat) -> Header:
        epoch = short_id(self.epoch.epoch_id)
        return Header(kind, 0, seat.index, 0, epoch, self.membership.version)

    def sign(self, kind: Kind, body: Submit | Mixed | Shares, seat: Seat, key: SigningKey) -> bytes:
        """A signed frame of a party of this shuffle."""
        header = self.header(kind, seat)
        return sign_frame(header, body, seat=seat, epoch_id=self.epoch.epoch_id, key=key)

    def read(self, frame: Buffer, kind: Kind, body: type[B], seat: Seat) -> B:
        """A frame of this party; FrameError, SignatureError or UnexpectedFrameError otherwise."""
        header = read_header(frame)
        data = verify_frame(
            frame,
            seat=seat,
            epoch_id=self.epoch.epoch_id,
            verify_key=seat_key(self.epoch, seat),
        )
        if header.kind is not kind or header.version != self.membership.version:
            raise UnexpectedFrameError(f"{header.kind.name} in a shuffle that wants {kind.name}")
        return decode_body(body, data)

    def read_submission(self, frame: Buffer, client: int) -> mix.Row:
        """A client's row, its proof checked; ProofError or EncodingError if it is bad."""
        seat = client_seat(client)
        submit = self.read(frame, Kind.SUBMIT, Submit, seat)
        (row,) = self._rows(submit.number, submit.row)
        mix.verify_submission(self.epoch.group, row, submit.proof, context=self.context(seat))
        return row

    def read_step(self, frame: Buffer, guard: int, before: Sequence[mix.Row]) -> list[mix.Row]:
        """A guard's rows, its proof checked against the rows before; ProofError if it is bad."""
        seat = guard_seat(guard)
        step = self.read(frame, Kind.MIXED, Mixed, seat)
        rows = self._rows(step.number, step.rows)
        mix.verify_mix(
            self.epoch.group, self.key, before, rows, step.proof, context=self.context(seat)
        )
        return rows

    def read_shares(self, frame: Buffer, guard: int, rows: Sequence[mix.Row]) -> tuple[Point, ...]:
        """A guard's shares of the last rows, its proof checked; ProofError if it is bad."""
        seat = guard_seat(guard)
        message = self.read(frame, Kind.SHARES, Shares, seat)
        self._check_number(message.number)
        shares = _split(self.epoch.group, message.shares)
        mix.verify_unmask(
            self.epoch.group,
            self.epoch.accusation_keys[guard],
            rows,
            shares,
            message.proof,
            context=self.context(seat),
        )
        return shares

    def _rows(self, number: int, data: bytes) -> list[mix.Row]:
        self._check_number(number)
        return [
            _row(_split(self.epoch.group, data[start : start + MIX_ROW_BYTES]))
            for start in range(0, len(data), MIX_ROW_BYTES)
        ]

    def _check_number(self, number: int) -> None:
        if number != self.number:
            raise UnexpectedFrameError(f"shuffle {number} instead of {self.number}")


class MixClient:
    """Submits to each shuffle once; the same bytes again when it is called again."""

    def __init__(
        self, *, epoch: Epoch, client: int, signing_key: SigningKey, entropy: Entropy
    ) -> None:
        self._epoch = epoch
        self._seat = client_seat(client)
        self._signing_key = signing_key
        self._entropy = entropy
        self._last = 0
        self._frame = b""

    def on_call(self, call: Call, membership: Membership, accusation: bytes) -> bytes:
        """The frame to submit; `accusation` is NOTHING for a client that has none.

        Raises UnexpectedFrameError for a shuffle before the last one.
        """
        if call.number < self._last:
            raise UnexpectedFrameError(f"shuffle {call.number} after {self._last}")
        if call.number > self._last:
            self._last = call.number
            shuffle = Shuffle(self._epoch, membership, call.number)
            row, proof = mix.submit(
                self._epoch.group,
                shuffle.key,
                accusation,
                MIX_BLOCKS,
                context=shuffle.context(self._seat),
                entropy=self._entropy,
            )
            submit = Submit(number=call.number, row=_join([row]), proof=proof)
            self._frame = shuffle.sign(Kind.SUBMIT, submit, self._seat, self._signing_key)
        return self._frame


class MixGuard:
    """Mixes once per number, and opens only what follows from its own mix."""

    def __init__(
        self, *, epoch: Epoch, secrets: GuardSecrets, signing_key: SigningKey, entropy: Entropy
    ) -> None:
        self._epoch = epoch
        self._secrets = secrets
        self._seat = guard_seat(secrets.guard)
        self._signing_key = signing_key
        self._entropy = entropy
        self._shuffle: Shuffle | None = None
        self._request: Mix | None = None
        self._mixed: list[mix.Row] = []
        self._step = b""
        self._opened: tuple[Unmask, bytes] | None = None

    def on_mix(self, request: Mix, membership: Membership) -> bytes:
        """This guard's step.

        Raises PeerError when anything before it does not hold, or a number comes again with other
        submissions.
        """
        if self._request == request:
            return self._step
        last = 0 if self._request is None else self._request.number
        if request.number <= last or len(request.steps) != self._secrets.guard:
            raise UnexpectedFrameError(f"asked to mix shuffle {request.number} after {last}")
        shuffle = Shuffle(self._epoch, membership, request.number)
        if len(request.submissions) != len(membership.clients):
            raise UnexpectedFrameError("a shuffle without a row of each client")
        rows = [
            shuffle.read_submission(frame, client)
            for frame, client in zip(request.submissions, membership.clients, strict=True)
        ]
        for guard, frame in enumerate(request.steps):
            rows = shuffle.read_step(frame, guard, rows)
        mixed = mix.mix(self._epoch.group, shuffle.key, rows, self._entropy)
        proof = mix.prove_mix(
            self._epoch.group,
            shuffle.key,
            rows,
            mixed,
            context=shuffle.context(self._seat),
            entropy=self._entropy,
        )
        step = Mixed(number=request.number, rows=_join(mixed.rows), proof=proof)
        self._shuffle, self._request, self._opened = shuffle, request, None
        self._mixed = list(mixed.rows)
        self._step = shuffle.sign(Kind.MIXED, step, self._seat, self._signing_key)
        return self._step

    def on_unmask(self, request: Unmask) -> bytes:
        """This guard's shares of the last rows.

        Raises PeerError when its own step is not among the steps or a later one does not hold.
        """
        if self._opened is not None and self._opened[0] == request:
            return self._opened[1]
        shuffle, own = self._shuffle, self._secrets.guard
        if (
            shuffle is None
            or self._opened is not None
            or request.number != shuffle.number
            or len(request.steps) != self._epoch.guard_count
            or request.steps[own] != self._step
        ):
            raise UnexpectedFrameError(f"asked to open shuffle {request.number}")
        rows = self._mixed
        for guard, frame in list(enumerate(request.steps))[own + 1 :]:
            rows = shuffle.read_step(frame, guard, rows)
        shares, proof = mix.unmask(
            self._epoch.group,
            self._secrets.accusation,
            rows,
            context=shuffle.context(self._seat),
            entropy=self._entropy,
        )
        message = Shares(
            number=shuffle.number,
            shares=b"".join(share.encode() for share in shares),
            proof=proof,
        )
        frame = shuffle.sign(Kind.SHARES, message, self._seat, self._signing_key)
        self._opened = (request, frame)
        return frame


def open_shuffle(
    shuffle: Shuffle, rows: Sequence[mix.Row], shares: Sequence[Sequence[Point]]
) -> list[bytes]:
    """What was submitted, in an order that nobody knows; nothing for rows without a message."""
    messages = mix.open_rows(shuffle.epoch.group, rows, shares)
    return [message for message in messages if message]


def _split(group: Group, data: bytes) -> tuple[Point, ...]:
    return tuple(
        group.decode(data[start : start + POINT_BYTES])
        for start in range(0, len(data), POINT_BYTES)
    )


def _row(points: Sequence[Point]) -> mix.Row:
    pairs = zip(points[::2], points[1::2], strict=True)
    return tuple(mix.Pair(ephemeral, masked) for ephemeral, masked in pairs)


def _join(rows: Sequence[mix.Row]) -> bytes:
    return b"".join(point.encode() for row in rows for pair in row for point in pair)
