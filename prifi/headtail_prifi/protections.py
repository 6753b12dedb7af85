"""Which protections are on. None can be switched off; what can differ is what they are made of.

Every benchmark prints this beside its figures (the published figures of PriFi were taken with
equivocation and disruption protection off).
"""

from dataclasses import dataclass

from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.setup.epoch import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """The text of `str()` is one line."""

    clients: int
    guards: int
    min_clients: int
    group: str
    cipher: str

    @classmethod
    def of(cls, epoch: Epoch) -> "Protections":
        return cls(
            clients=epoch.client_count,
            guards=epoch.guard_count,
            min_clients=epoch.roster.min_clients,
            group=epoch.group.name,
            cipher=default_cipher().name,
        )

    def __str__(self) -> str:
        return (
            "protections: equivocation lock on (payload, key and reservation lanes), "
            "disruption blame on (signed, in-band, accusation shuffle), "
            "downstream signed and chained on, verifiable key shuffle on "
            f"({self.group}), pads AES-256-CTR ({self.cipher}), "
            f"{self.clients} clients (at least {self.min_clients}), {self.guards} guards"
        )
