"""Bundles that only a share of the devices is offered yet: a new version is tried on a few."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Final

from msgspec import Meta

from headtail_models.bundle.reader import Bundle

Share = Annotated[float, Meta(ge=0, le=1)]

_TWO_TO_64: Final = 2**64


class Canaries:
    """`shares` by bundle, as name-version; all others are offered to everyone.

    Whether a device is among the share depends on its name and the bundle alone: it is the same
    after a restart and on every edge, other devices try the next version, and when a share grows
    those that had the bundle keep it.
    """

    def __init__(self, shares: Mapping[str, float], find: Callable[[bytes], Bundle | None]) -> None:
        """`find` gives the bundle of a digest, if it is served."""
        self._shares = dict(shares)
        self._find = find

    def __repr__(self) -> str:
        return f"<Canaries {self._shares}>"

    def offered(self, device: str, digest: bytes) -> bool:
        """Whether the device is offered the bundle."""
        if not self._shares:
            return True
        bundle = self._find(digest)
        share = self._shares.get(bundle.name) if bundle is not None else None
        return share is None or _draw(device, digest) < share


def _draw(device: str, digest: bytes) -> float:
    """A number in [0, 1) that this device and this bundle always have."""
    drawn = hashlib.sha256(digest + device.encode()).digest()[:8]
    return int.from_bytes(drawn, "big") / _TWO_TO_64
