"""How the relay gets a membership endorsed: one proposal, one round trip to the guards."""

from headtail_prifi.core.body import frame_of
from headtail_prifi.core.chase import Chase
from headtail_prifi.core.header import Header, Kind, short_id
from headtail_prifi.core.membership import Certificate, pack_clients
from headtail_prifi.core.messages import Endorse, Propose
from headtail_prifi.core.seat import RELAY, Seat, guard_seat
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


class Rekeying:
    """A proposed membership and who endorsed it so far."""

    def __init__(
        self, epoch: Epoch, membership: Membership, options: RelayOptions, now: float
    ) -> None:
        self._epoch = epoch
        self._signatures: dict[int, bytes] = {}
        self.membership = membership
        header = Header(
            Kind.PROPOSE, 0, RELAY.index, 0, short_id(epoch.epoch_id), membership.version
        )
        bitmap = pack_clients(membership.clients, epoch.client_count)
        frame = frame_of(header, Propose(version=membership.version, clients=bitmap))
        self._frames = {guard_seat(index): frame for index in range(epoch.guard_count)}
        self.chase = Chase(
            self._frames, now=now, resend_s=options.resend_s, patience_s=options.patience_s
        )

    def proposals(self) -> list[Outgoing]:
        """What goes to the guards."""
        return [Outgoing(seat, frame) for seat, frame in self._frames.items()]

    def on_endorse(self, source: Seat, header: Header, endorse: Endorse) -> Certificate | None:
        """The certificate, once every guard has endorsed; an old endorsement is ignored.

        Raises SignatureError for one that does not hold.
        """
        if header.version != self.membership.version:
            return None
        key = self._epoch.guard_verify_key(source.index)
        self.membership.verify_endorsement(key, endorse.signature)
        self._signatures[source.index] = endorse.signature
        self.chase.answered(source)
        if len(self._signatures) < self._epoch.guard_count:
            return None
        return Certificate(
            version=self.membership.version,
            clients=pack_clients(self.membership.clients, self._epoch.client_count),
            signatures=tuple(self._signatures[index] for index in range(self._epoch.guard_count)),
        )
