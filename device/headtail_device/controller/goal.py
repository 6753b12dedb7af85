"""What is wanted of a placement."""

import math
from dataclasses import dataclass
from typing import Final

from headtail_device import placement_config
from headtail_device.controller.option import Option
from headtail_device.decision import Forecast
from headtail_device.placement import Local, Placement

Mode = placement_config.Goal

POINT: Final = 0.01
_SAME_DROP: Final = 0.005
_CLASS_COST: Final = 1e3
_KILOBYTE: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cost:
    """Less is better; what would be late is worse than anything in time."""

    late: bool
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`max_drop`: options that lose more accuracy are never taken, if there are others.

    lowest-latency  the soonest answer on average; `seconds_a_point` is how much later a frame may
                    come for 0.01 more accuracy. With exits this moves their thresholds: the worse
                    the link, the more a frame saves that ends here, and the more eager the exits.
    lowest-bytes, lowest-energy
                    the fewest of those that are in time; the sooner of equals
    deadline        the most accurate (in steps of 0.005) of those that are in time; of equals the
                    one with the least energy
    fixed           `fixed` while the edge can be had, at the most accurate operating point
    """

    mode: Mode = "lowest-latency"
    max_drop: float = 0.01
    seconds_a_point: float = 0.02
    fixed: Placement | None = None

    def __post_init__(self) -> None:
        if (self.mode == "fixed") != (self.fixed is not None):
            raise ValueError("mode `fixed`, and no other, needs a placement")

    def allowed(self, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Those accurate enough, local ones always; for `fixed` the placement and local."""
        if self.fixed is None:
            return tuple(one for one in options if _is_local(one) or one.drop <= self.max_drop)
        mine = [option for option in options if option.placement == self.fixed]
        best = min(mine, key=lambda option: option.drop, default=None)
        return tuple(one for one in options if _is_local(one) or one is best)

    def cost(self, option: Option, forecast: Forecast, remaining_s: float) -> Cost:
        """Of an option that would turn out as forecast."""
        late = forecast.upper_s > remaining_s
        amount = self._amount(option, forecast, forecast.latency_s, forecast.energy_j)
        return Cost(late=late, amount=amount)

    def hope(self, option: Option, forecast: Forecast) -> float:
        """The amount that it would cost if all went as well as it can."""
        return self._amount(option, forecast, forecast.hoped_s, forecast.hoped_j)

    def _amount(
        self, option: Option, forecast: Forecast, latency_s: float, energy_j: float
    ) -> float:
        drop = max(forecast.drop, 0.0)
        match self.mode:
            case "lowest-latency":
                return latency_s + self.seconds_a_point * drop / POINT
            case "lowest-bytes":
                return forecast.sent_bytes / _KILOBYTE + latency_s
            case "lowest-energy":
                return energy_j
            case "deadline":
                return _CLASS_COST * math.ceil(drop / _SAME_DROP - 1e-9) + energy_j
            case "fixed":
                return 0.0 if option.placement == self.fixed else 1.0


def _is_local(option: Option) -> bool:
    return isinstance(option.placement, Local)
