"""An edge that makes itself known on its network."""

from collections.abc import Sequence

from headtail_edge.config import EdgeConfig
from headtail_fabric import keys
from headtail_fabric.discovery import Announcement, fingerprint
from headtail_fabric.discovery.mdns import Announcer


def announced(config: EdgeConfig, *, endpoint: str, digests: Sequence[bytes]) -> Announcer:
    """Announces the edge bound at `endpoint` until it is closed. Raises DiscoveryMissingError,
    DiscoveryError and the errors of key files."""
    key = "" if config.key is None else fingerprint(keys.load(config.key).public)
    announcement = Announcement(
        name=config.name, fingerprint=key, bundles=tuple(digest.hex() for digest in digests)
    )
    return Announcer(endpoint, announcement)
