"""Gives the bundle to an edge that lacks it."""

import logging
from collections.abc import Callable

from headtail_device.notices import Notices
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.peer.ports import ClientPort

log = logging.getLogger(__name__)


class BundleGiver:
    """`packed` gives the packed bundle; None forbids to push it."""

    def __init__(
        self,
        *,
        port: ClientPort,
        digest: bytes,
        packed: Callable[[], bytes] | None,
        notices: Notices,
    ) -> None:
        self._port = port
        self._digest = digest
        self._packed = packed
        self._notices = notices
        self.given_bytes = 0

    def give(self, digest: bytes) -> None:
        """The edge asked for a bundle."""
        if digest != self._digest or self._packed is None:
            self._notices.tell(
                digest,
                "the edge lacks the bundle: install the same bundle there, or let this device push "
                "it (edge.push_bundles)",
                digest=digest,
            )
            return
        try:
            packed = self._packed()
        except HeadtailError as error:
            self._notices.tell(digest, "the bundle can't be packed for the edge", error=error)
            return
        log.info("pushing the bundle", extra=fields(digest=digest, size_bytes=len(packed)))
        self._port.push_bundle(digest, packed)
        self.given_bytes += len(packed)
