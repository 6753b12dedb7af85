"""One membership of an epoch from a client's or guard's side: its streams and what was sent."""

from dataclasses import dataclass, field
from typing import Final

from headtail_prifi.core.seat import Seat
from headtail_prifi.crypto.cipher import PadCipher, PadStream
from headtail_prifi.round.options import retained_rounds
from headtail_prifi.round.voucher import CipherLog
from headtail_prifi.setup.epoch import ClientSecrets, Epoch, GuardSecrets
from headtail_prifi.setup.roster import Membership

REMEMBERED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`streams` are the pairs' in the order of the other role, `log` has what this side sent."""

    membership: Membership
    streams: tuple[PadStream, ...] = field(repr=False)
    log: CipherLog = field(repr=False)


class Segments:
    """The current membership and the one before it, which a case may still be about."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        seat: Seat,
        secrets: ClientSecrets | GuardSecrets,
        cipher: PadCipher,
    ) -> None:
        self._epoch = epoch
        self._seat = seat
        self._secrets = secrets
        self._cipher = cipher
        self._segments: dict[int, Segment] = {}
        self.current = self.open(epoch.membership, first_round=0)

    def open(self, membership: Membership, *, first_round: int) -> Segment:
        """Begin with a membership that was checked."""
        keys = self._secrets.pad_keys(membership)
        self.current = Segment(
            membership=membership,
            streams=tuple(self._cipher.stream(key) for key in keys),
            log=CipherLog(
                epoch_id=self._epoch.epoch_id,
                version=membership.version,
                seat=self._seat,
                first_round=first_round,
                retain=retained_rounds(self._epoch.client_count),
            ),
        )
        self._segments[membership.version] = self.current
        for version in sorted(self._segments)[:-REMEMBERED]:
            del self._segments[version]
        return self.current

    def get(self, version: int) -> Segment | None:
        """The segment of a membership that is still remembered."""
        return self._segments.get(version)

    def membership(self, version: int) -> Membership | None:
        """The membership of a version that is still remembered."""
        segment = self._segments.get(version)
        return None if segment is None else segment.membership

    def streams(self, version: int) -> tuple[PadStream, ...]:
        """The pair streams of a remembered version; KeyError for another one."""
        return self._segments[version].streams
