"""An edge's sealing key, put to use."""

import logging
import secrets

from headtail_edge.config import SealConfig
from headtail_edge.metrics import EdgeMetrics
from headtail_fabric.seal import Opener, SealError
from headtail_fabric.seal import key as seal_key

log = logging.getLogger(__name__)


def open_seals(config: SealConfig, metrics: EdgeMetrics) -> Opener | None:
    """What opens sealed payloads; None without a key. Raises the errors of key files."""
    if config.key is None:
        return None

    def refused(error: SealError) -> None:
        metrics.seal_refused(type(error).__name__.removesuffix("Error").lower())
        log.debug("sealed payload refused: %s", error.message)

    return Opener(
        seal_key.load(config.key).secret,
        required=config.required,
        pad_bytes=config.pad_bytes,
        random=secrets.token_bytes,
        refused=refused,
    )
