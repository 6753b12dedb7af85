"""What the links with sealed packets share: opening them, and sealing what goes back."""

import logging
from collections.abc import Callable

from headtail_edge.gateway.envelope import EnvelopeError
from headtail_edge.gateway.metrics import Dropped, GatewayMetrics
from headtail_edge.gateway.node_book import Roster
from headtail_edge.gateway.vault import StateDamagedError, Vault
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)


class Sealed:
    """The vault with the roster of the moment."""

    def __init__(self, vault: Vault, roster: Callable[[], Roster], metrics: GatewayMetrics) -> None:
        self._vault = vault
        self._roster = roster
        self._metrics = metrics
        self._told: set[str] = set()

    def open(self, packet: bytes) -> tuple[str, bytes] | None:
        """(node, message), or None for what is noise, forged or came before."""
        try:
            return self._vault.open(packet, self._roster())
        except EnvelopeError:
            self._metrics.dropped(Dropped.FORGED)
        except StateDamagedError as error:
            # One node's file: the others go on.
            if error.message not in self._told:
                self._told.add(error.message)
                log.error("packets refused", extra=fields(reason=error.message))
            self._metrics.dropped(Dropped.FORGED)
        return None

    def seal(self, node: str, data: bytes) -> bytes | None:
        """None for a node that has no key any more."""
        return self._vault.seal(node, data, self._roster())
