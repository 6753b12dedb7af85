"""What failed is left alone for a while: a cut that the edge can't run, a head that breaks."""

from dataclasses import dataclass
from typing import Final

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Penalty:
    lasts_s: float
    until: float


class Penalties:
    """By option: a second after the first failure, twice as long after each that follows."""

    def __init__(self) -> None:
        self._penalties: dict[str, _Penalty] = {}

    def __repr__(self) -> str:
        return f"Penalties({', '.join(self._penalties) or 'none'})"

    def bars(self, name: str, now: float) -> bool:
        """Whether the option is not to be used now."""
        penalty = self._penalties.get(name)
        return penalty is not None and now < penalty.until

    def told(self, name: str, *, fault: bool, now: float) -> None:
        """A frame of that option failed, or did not."""
        if not fault:
            self._penalties.pop(name, None)
            return
        before = self._penalties.get(name)
        if before is not None and now < before.until:
            return  # one that was under way at the same time
        lasts_s = _FIRST_S if before is None else min(2 * before.lasts_s, _LONGEST_S)
        self._penalties[name] = _Penalty(lasts_s, now + lasts_s)
