"""What can go wrong while an epoch is set up."""

from headtail_fabric.errors import PeerError


class RosterError(PeerError):
    """The roster is not signed by the enrolment key, or contradicts itself. Get a fresh copy from
    whoever enrols devices, and check the enrolment key in the configuration."""


class SetupError(PeerError):
    """The set-up of an epoch failed. Nothing was sent anonymously; the relay may try again
    without the party that the message names."""


class FrameRefusedError(SetupError):
    """A set-up frame was refused, and nothing changed by it. It costs its sender the connection;
    check that both sides hold one roster and run one version."""


class MessageError(FrameRefusedError):
    """A set-up message is malformed, breaks a limit or is not signed by its author. It costs its
    sender the connection; check that both sides hold one roster and run one version."""


class UnexpectedMessageError(FrameRefusedError):
    """A set-up message came out of order, twice, or for another epoch. It costs its sender the
    connection."""


class AnnouncementRefusedError(FrameRefusedError):
    """The relay announced an epoch that this party must not join: an old number, another roster,
    or too few clients. If the relay was reset, give it a number above that of the last epoch."""


class AttemptFailedError(SetupError):
    """An attempt to set an epoch up is over. The relay may try again without the party that the
    message names."""


class KeyRefusedError(AttemptFailedError):
    """A party's keys are a copy of another's, or it could not prove that it holds their secrets.
    Leave the named party out of the next attempt."""


class ShuffleRefusedError(AttemptFailedError):
    """A guard's shuffle, or the proof of it, does not hold. The signed step is evidence against
    that guard: remove it from the roster."""


class OutcomeRefusedError(AttemptFailedError):
    """The result of the set-up is not what this party took part in, or not every guard signed
    it. The relay or a guard lies; do not speak in this epoch."""


class SilentPartyError(AttemptFailedError):
    """Parties did not answer in time. Leave them out of the next attempt, or check their links."""


class AbandonedError(AttemptFailedError):
    """Another party gave the attempt up, and says why. The relay may try again."""
