"""How much of a bundle's bytes is taken in before it is refused."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one bundle may cost its reader. An edge that takes bundles from devices sets its own.

    `max_ratio` bounds unpacked over packed bytes; weights shrink by less than 2 when deflated.
    """

    max_files: int = 512
    max_total_bytes: int = 4 * 2**30
    max_manifest_bytes: int = 8 * 2**20
    max_ratio: int = 100


DEFAULT_LIMITS: Final = Limits()
MAX_SIGNATURE_BYTES: Final = 1024
MAX_CODER_BYTES: Final = 16 * 2**20
