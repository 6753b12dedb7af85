"""Finding edges on the local network: DNS-SD over multicast DNS (RFC 6762, RFC 6763).

    announcement   what an edge says of itself, as a TXT record (pure)
    mdns           saying it, and hearing it (the package zeroconf)

What is heard is a hint where to connect, and no more: a device connects to an edge only by a key
that it was given, which the CURVE handshake checks.
"""

from headtail_fabric.discovery.announcement import Announcement, fingerprint

__all__ = ["Announcement", "fingerprint"]
