"""What a target is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headtail_fabric.errors import HeadtailError

Parser = Callable[[bytes], object]


def _as_it_is(data: bytes) -> bytes:
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Parsers that take the same kind of input. Of what they raise only `errors` may come out.

    `corpus` are valid inputs; `mend` puts checksums right, so that a change gets past them.
    """

    name: str
    what: str
    parsers: tuple[Parser, ...]
    corpus: Callable[[], Sequence[bytes]]
    errors: tuple[type[Exception], ...] = (HeadtailError,)
    mend: Callable[[bytes], bytes] = _as_it_is
