"""Where a link emulator listens and leads to: addresses of this machine."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final, Self

from headtail_fabric.errors import ConfigError

_TEXT: Final = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]/:]+):(?P<port>\d{1,5})")


class LoopbackAddressError(ConfigError):
    """The link emulator listens on and leads to addresses of this machine only, because an edge
    without an allow-list trusts whoever comes from there. Write tcp://127.0.0.1:PORT."""


@dataclass(frozen=True, slots=True)
class LoopbackAddress:
    """An address of 127.0.0.0/8 or [::1] with a port; 0 stands for any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, endpoint: str) -> Self:
        """From `tcp://HOST:PORT`; localhost is 127.0.0.1. Raises LoopbackAddressError."""
        found = _TEXT.fullmatch(endpoint)
        if found is None or int(found["port"]) > 65535:
            raise LoopbackAddressError(f"{endpoint!r} is not tcp://HOST:PORT", endpoint=endpoint)
        host = "127.0.0.1" if found["host"] == "localhost" else found["host"].strip("[]")
        try:
            is_loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_loopback = False
        if not is_loopback:
            raise LoopbackAddressError(f"{endpoint} is not on this machine", endpoint=endpoint)
        return cls(host, int(found["port"]))

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def __str__(self) -> str:
        return (
            f"tcp://[{self.host}]:{self.port}"
            if ":" in self.host
            else (f"tcp://{self.host}:{self.port}")
        )
