"""Announcing an edge and looking for edges, by the package zeroconf."""

import importlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headtail_fabric.discovery.announcement import (
    SERVICE,
    Announcement,
    BadAnnouncementError,
)
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.logs import fields
from headtail_fabric.wire import VERSION

if TYPE_CHECKING:
    from zeroconf import ServiceStateChange, Zeroconf

log = logging.getLogger(__name__)

_LOOK_UP_MS: Final = 1_500
_ANYWHERE: Final = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104 - told apart, not bound to


class DiscoveryMissingError(ConfigError):
    """Finding edges by mDNS needs the package zeroconf. Install it with `pip install
    'headtail[discovery]'`, or give the edge's address (`edge.endpoint`)."""


class DiscoveryError(ResourceError):
    """This machine does not let Headtail take part in multicast DNS. Check that a network is up and
    that UDP port 5353 is not blocked, or use static addresses."""


class Announcer:
    """Says that an edge is here until it is closed. `endpoint` is where it is bound, port and
    all. Raises DiscoveryMissingError, DiscoveryError."""

    def __init__(self, endpoint: str, announcement: Announcement) -> None:
        zeroconf = _zeroconf()
        url = urlsplit(endpoint)
        host, port = url.hostname or "", url.port or 0
        own = None if host in _ANYWHERE else host
        self._conf = _open(own)
        label = announcement.name.replace(".", "-")[:40] or "edge"
        info = zeroconf.ServiceInfo(
            SERVICE,
            f"{label}.{SERVICE}",
            parsed_addresses=[own] if own else _own_addresses(),
            port=port,
            properties=dict(announcement.to_txt()),
            server=f"{socket.gethostname().split('.')[0] or 'edge'}-{port}.local.",
        )
        try:
            self._conf.register_service(info, allow_name_change=True)
        except (OSError, zeroconf.Error) as error:
            self._conf.close()
            raise DiscoveryError(f"this edge can't be announced: {error}") from None

    def close(self) -> None:
        """Says goodbye."""
        self._conf.unregister_all_services()
        self._conf.close()


class Browser:
    """Looks for edges with these keys until it is closed.

    `wanted` maps fingerprints to what is to be called with the address (tcp://HOST:PORT) each time
    that edge is heard of; the calls come from a thread of their own. `host` limits the search to
    one of this machine's addresses. Raises DiscoveryMissingError, DiscoveryError.
    """

    def __init__(
        self, wanted: Mapping[str, Callable[[str], None]], *, host: str | None = None
    ) -> None:
        zeroconf = _zeroconf()
        self._wanted = dict(wanted)
        self._told: set[str] = set()
        self._conf = _open(host)
        self._browser = zeroconf.ServiceBrowser(self._conf, SERVICE, handlers=[self._changed])

    def close(self) -> None:
        """No calls come any more once this returns."""
        self._browser.cancel()
        self._conf.close()

    def _changed(
        self,
        zeroconf: "Zeroconf",
        service_type: str,
        name: str,
        state_change: "ServiceStateChange",
    ) -> None:
        if state_change.name == "Removed":
            return  # the connection tells better whether it is gone
        info = zeroconf.get_service_info(service_type, name, timeout=_LOOK_UP_MS)
        addresses = [] if info is None else info.parsed_scoped_addresses()
        if info is None or not addresses or not info.port:
            return
        try:
            heard = Announcement.from_txt(info.properties)
        except BadAnnouncementError as error:
            self._tell(name, "announcement passed over", reason=error.message)
            return
        if heard.version != VERSION:
            self._tell(name, "edge of another version", version=heard.version)
            return
        located = self._wanted.get(heard.fingerprint)
        if located is None:
            self._tell(name, "edge heard of whose key is not known here", key=heard.fingerprint)
            return
        host = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        log.info("edge found", extra=fields(edge=heard.name, host=host, port=info.port))
        located(f"tcp://{host}:{info.port}")

    def _tell(self, name: str, message: str, **facts: object) -> None:
        if name not in self._told and len(self._told) < 100:
            self._told.add(name)
            log.info(message, extra=fields(service=name, **facts))


def _zeroconf() -> Any:
    try:
        return importlib.import_module("zeroconf")
    except ImportError:
        raise DiscoveryMissingError("the package zeroconf is not installed") from None


def _open(host: str | None) -> "Zeroconf":
    zeroconf = _zeroconf()
    interfaces = zeroconf.InterfaceChoice.All if host is None else [host]
    try:
        conf: Zeroconf = zeroconf.Zeroconf(interfaces=interfaces)
        return conf
    except (OSError, zeroconf.Error) as error:
        raise DiscoveryError(f"no multicast DNS here: {error}") from None


def _own_addresses() -> list[str]:
    """This machine's addresses but for loopback; loopback where there is no other."""
    import ifaddr

    found = [
        str(address.ip)
        for adapter in ifaddr.get_adapters()
        for address in adapter.ips
        if address.is_IPv4 and not str(address.ip).startswith("127.")
    ]
    return found or ["127.0.0.1"]
