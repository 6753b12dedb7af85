"""What may be wrong with traffic inside the DC-net."""

from headtail_fabric.errors import LocalError, PeerError


class TrafficError(PeerError):
    """A pseudonym or an exit sent something that is malformed, does not open or breaks a limit.
    It is dropped; others are not touched."""


class MessageTooLongError(LocalError):
    """A message is longer than the DC-net carries in one piece. Use a stream, or cut it."""


class StreamClosedError(LocalError):
    """The stream is closed for writing. Open a new one."""
