"""What an edge says of itself: the TXT record of its service.

txtvers  1
v        the wire format's version
fp       fingerprint of its CURVE key: the first 16 bytes of the key's SHA-256, hex
name     what devices see it as
b        the beginnings of the digests of the bundles served, 12 hex digits each, by commas
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zmq.utils import z85

from headtail_fabric.errors import PeerError
from headtail_fabric.keys import check_public
from headtail_fabric.wire import VERSION

SERVICE: Final = "_headtail._tcp.local."
FINGERPRINT_BYTES: Final = 16
DIGEST_HEX: Final = 12
_MOST_DIGESTS: Final = 16
_TEXT: Final = re.compile(r"[ -~]{0,64}")
_HEX: Final = re.compile(r"[0-9a-f]*")


class BadAnnouncementError(PeerError):
    """Something on this network announces a Headtail edge in a way that makes no sense. It is
    passed over; check what runs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """`fingerprint` is empty for an edge without keys; `bundles` are beginnings of digests."""

    name: str
    fingerprint: str = ""
    version: int = VERSION
    bundles: tuple[str, ...] = ()

    def to_txt(self) -> dict[str, str]:
        """The record's keys and values, each pair within 255 bytes."""
        return {
            "txtvers": "1",
            "v": str(self.version),
            "fp": self.fingerprint,
            "name": self.name[:64],
            "b": ",".join(digest[:DIGEST_HEX] for digest in self.bundles[:_MOST_DIGESTS]),
        }

    @classmethod
    def from_txt(cls, record: Mapping[bytes, bytes | None]) -> Self:
        """Raises BadAnnouncementError, whatever comes."""
        try:
            values = {key: (record.get(key) or b"").decode("ascii") for key in (b"v", b"fp", b"b")}
            name = (record.get(b"name") or b"").decode("ascii")
        except UnicodeDecodeError:
            raise BadAnnouncementError("an announcement that is no text") from None
        version, key, digests = values[b"v"], values[b"fp"], values[b"b"]
        bundles = tuple(digest for digest in digests.split(",") if digest)
        if not (version.isdigit() and len(version) < 4 and _TEXT.fullmatch(name)):
            raise BadAnnouncementError(f"an announcement of version {version[:20]!r}")
        if len(key) not in (0, 2 * FINGERPRINT_BYTES) or not _HEX.fullmatch(key):
            raise BadAnnouncementError(f"an announcement with the fingerprint {key[:40]!r}")
        if len(bundles) > _MOST_DIGESTS or not all(
            len(digest) == DIGEST_HEX and _HEX.fullmatch(digest) for digest in bundles
        ):
            raise BadAnnouncementError("an announcement whose bundles are none")
        return cls(name=name, fingerprint=key, version=int(version), bundles=bundles)


def fingerprint(public: str) -> str:
    """Of a CURVE public key (Z85). Raises BadKeyError."""
    key = z85.decode(check_public(public))
    return hashlib.sha256(key).hexdigest()[: 2 * FINGERPRINT_BYTES]
