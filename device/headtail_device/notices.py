"""Errors that would come with every frame, told once."""

import logging

from headtail_fabric.logs import fields

log = logging.getLogger(__name__)


class Notices:
    """Logs each kind of trouble once until `renew`, which is for a new connection."""

    def __init__(self) -> None:
        self._told: set[object] = set()

    def tell(self, kind: object, message: str, **facts: object) -> None:
        if kind not in self._told:
            self._told.add(kind)
            log.error(message, extra=fields(**facts))

    def renew(self) -> None:
        self._told.clear()
