"""What goes in and out of a gateway's core, as values."""

from collections.abc import Hashable
from dataclasses import dataclass

from headtail_edge.gateway.models import Crossing


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message came from: a link by its number, and an address that the link knows."""

    link: int
    address: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message; `node` is who was proved to have sent it, None on a link that asks for nothing."""

    route: Route
    node: str | None
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A message to a node."""

    route: Route
    node: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Features that a tail is to be run on; `ticket` names it in what comes back."""

    ticket: int
    crossing: Crossing
    payload: bytes
