"""What may go wrong in a running DC-net, by who is at fault."""

from headtail_fabric.errors import ConfigError, LocalError, PeerError


class FrameError(PeerError):
    """A frame breaks the format or a limit. It costs its sender the connection; check that all
    parties run the same version of Headtail."""


class UnexpectedFrameError(PeerError):
    """A frame came that its sender may not send now, or at all. It costs its sender the
    connection."""


class MembershipError(PeerError):
    """A membership was proposed or announced that this party must not accept: a second one for
    one version, too few clients, a client that was not there before, a signature missing. The
    relay asks for something that would weaken anonymity."""


class RecordError(PeerError):
    """What is shown of a round is not what the relay signed, or belongs to another round."""


class AccusationError(PeerError):
    """An accusation was not made with the key of the pseudonym that it names. Its author is
    unknown; drop it."""


class RefutedError(AccusationError):
    """The relay's signed record contradicts an accusation: the slot did not own the bit, or the
    bit came as it was sent. The slot's owner broke the protocol and loses its turns."""


class BogusCaseError(PeerError):
    """The relay signed a case that an honest relay can't have opened. Keep the frame: it is
    evidence against the relay."""


class EvidenceError(PeerError):
    """A file of evidence proves nothing: a signature, a proof or a link between them is wrong.
    Ask whoever gave it to you for the original file and for the epoch it belongs to."""


class StateError(LocalError):
    """A core was told something that its state does not allow. Please report it."""


class GeometryError(ConfigError):
    """The sizes of the DC-net's cells do not fit together. Correct the named value."""


class BacklogFullError(LocalError):
    """More is queued than the anonymous slot can carry soon. Wait until some of it was delivered
    and send again."""
