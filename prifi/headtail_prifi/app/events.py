"""What programs at both ends of anonymous traffic are told."""

from dataclasses import dataclass, field

from headtail_prifi.crypto.seal import ReplyKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Client: all cells of the message with this id reached the relay."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """Client: an answer to the datagram with this id; there may be more of them."""

    id: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRead:
    """Either end: bytes of a stream, in order; `ended` when there will be no more."""

    label: bytes
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Exit: a datagram of a pseudonym. Answer with `Exit.reply(request, ..)`."""

    slot: int
    payload: bytes
    request: "Request" = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOpened:
    """Exit: a pseudonym opened a stream."""

    slot: int
    label: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """How to answer one datagram: its one-time key, and how many parts were sealed with it."""

    key: ReplyKey
    used: int = 0


ClientTraffic = Sent | Replied | StreamRead
ExitTraffic = Asked | StreamOpened | StreamRead
