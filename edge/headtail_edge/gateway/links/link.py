"""The seam between the gateway's loop and its links."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

import zmq


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message, the address to answer to, and who was proved to have sent it, if anybody."""

    address: Hashable
    node: str | None
    data: bytes


class Link(Protocol):
    """One way in. Worked by one thread; nothing waits but in the poller."""

    @property
    def endpoint(self) -> str:
        """Where it is, with the port that was really taken."""
        ...

    def watch(self, poller: zmq.Poller) -> None:
        """Register with the poller, for as long as the link lives."""
        ...

    def read(self) -> Iterator[Incoming]:
        """What has come, up to a limit, so that no link starves the others."""
        ...

    def send(self, address: Hashable, node: str, data: bytes) -> None:
        """A message that can't be delivered is dropped: nodes ask again."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...
