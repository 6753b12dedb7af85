"""What an operator may set of the round loop; the protections have no switch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """A client checks the relay's signature every `verify_every` rounds, asks again for a missing
    frame after `nack_s`, and queues at most `max_waiting` cells."""

    verify_every: int = 128
    nack_s: float = 0.05
    max_waiting: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """What the relay does when others are slow, or have nothing to say.

    A frame without an answer goes again after `resend_s`; after `patience_s` its addressee counts
    as lost. A client's requests to repeat frames are heard every `nack_min_s` at most. When nobody
    has reserved, rounds open ever more slowly, from `idle_min_s` up to `idle_max_s` apart. Guards
    are asked for `ahead_batches` batches of pads in advance.
    """

    resend_s: float = 0.25
    patience_s: float = 3.0
    nack_min_s: float = 0.01
    idle_min_s: float = 0.001
    idle_max_s: float = 0.02
    ahead_batches: int = 3
    max_down_waiting: int = 4096


def retained_rounds(clients: int) -> int:
    """For how many rounds everybody can answer for what it sent: 4 a client, at least 128."""
    return max(128, 4 * clients)
