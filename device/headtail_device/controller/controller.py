"""Where and how each frame is computed."""

from headtail_device.controller.conditions import Conditions, SlotLink, conditions
from headtail_device.controller.curiosity import Candidate, Caution, Curiosity
from headtail_device.controller.forecast import Forecaster
from headtail_device.controller.goal import Cost, Goal
from headtail_device.controller.option import Option
from headtail_device.controller.penalties import Penalties
from headtail_device.controller.steadiness import Steadiness, SteadinessSettings
from headtail_device.decision import Decision, Experience, Forecast, Reason
from headtail_device.placement import Local, Observation
from headtail_models.planner.option import EnergyModel

_FITS_DEVIATIONS = 3.0


class Controller:
    """A `Policy`: decides by `place`, learns by `finished`. Times are of one monotonic clock.

    `options` are those of `menu`; one must be local. Raises ValueError without it.
    """

    def __init__(
        self,
        options: tuple[Option, ...],
        *,
        goal: Goal | None = None,
        energy: EnergyModel | None = None,
        slots: SlotLink | None = None,
        caution: Caution | None = None,
        steadiness: SteadinessSettings | None = None,
    ) -> None:
        self._goal = goal or Goal()
        self._slots = slots
        self._options = {
            option.name: option for option in self._goal.allowed(options) if _fits(option, slots)
        }
        self._refuges = frozenset(
            name for name, option in self._options.items() if not option.needs_edge
        )
        if not self._refuges:
            raise ValueError("one option must need no edge")
        self._forecaster = Forecaster(energy or EnergyModel())
        self._steadiness = Steadiness(steadiness)
        self._curiosity = Curiosity(caution)
        self._penalties = Penalties()
        self._heard_at: float | None = None
        self._wire_s: float | None = None
        self._carried_bytes = 0
        self._link_free_at = self._edge_free_at = float("-inf")
        self._expected_s = 0.0

    def __repr__(self) -> str:
        return f"<Controller {self._steadiness!r} {self._curiosity!r} {self._forecaster!r}>"

    @property
    def options(self) -> tuple[Option, ...]:
        """Those that it chooses from."""
        return tuple(self._options.values())

    @property
    def changes(self) -> int:
        """How often another option became the usual one."""
        return self._steadiness.changes

    @property
    def tries(self) -> int:
        """How many frames went another way than the usual one, to learn."""
        return self._curiosity.tries

    def place(self, seen: Observation) -> Decision:
        """For the frame that waits now."""
        now, given = seen.now, self._conditions(seen)
        self._forecaster.link_told(given)
        forecasts = {
            name: self._forecaster.forecast(option, given, now)
            for name, option in self._options.items()
        }
        costs = {
            name: self._goal.cost(self._options[name], forecast, given.remaining_s)
            for name, forecast in forecasts.items()
        }
        usable = {
            name: cost
            for name, cost in costs.items()
            if name in self._refuges or (given.edge_usable and not self._penalties.bars(name, now))
        }
        changes = self._steadiness.changes
        name = usual = self._steadiness.choose(usable, self._refuges, now)
        if self._steadiness.changes > changes:
            self._curiosity.rewarded()
        reason = Reason.BEST
        if given.edge_usable:
            tried = self._tried(name, forecasts, usable, given, now)
            if tried is not None:
                name, reason = tried, Reason.TRIED
        elif min(costs, key=lambda one: (costs[one], one)) not in self._refuges:
            reason = Reason.NO_EDGE
        return self._decision(name, forecasts[name], reason, forecasts[usual].latency_s, given, now)

    def finished(self, decision: Decision, was: Experience, now: float) -> None:
        """What became of a frame. Frames may end in any order, or never be told of."""
        forecast = decision.forecast
        if forecast is None:
            return  # somebody else's decision
        option = self._options[decision.option]
        if was.wire_s is not None:
            self._heard_at, self._wire_s = now, was.wire_s
            self._carried_bytes = was.payload_bytes or 0
        if decision.reason is Reason.TRIED:
            self._curiosity.charged(max(was.total_s - decision.usual_s, 0.0))
        self._penalties.told(option.name, fault=was.fault, now=now)
        self._forecaster.learn(option, forecast, was, now)

    def _conditions(self, seen: Observation) -> Conditions:
        now = seen.now
        if seen.in_flight == 0:
            self._link_free_at = self._edge_free_at = float("-inf")
        # What is overdue will on average stay away for as long again.
        overdue_s = max(0.0, seen.oldest_s - self._expected_s) if seen.in_flight else 0.0
        return conditions(
            seen,
            heard_s=float("inf") if self._heard_at is None else max(0.0, now - self._heard_at),
            backlog_s=max(overdue_s, self._link_free_at - now, 0.0),
            edge_busy_s=max(0.0, self._edge_free_at - now),
            wire_s=self._wire_s,
            carried_bytes=self._carried_bytes,
            slots=self._slots,
        )

    def _tried(
        self,
        chosen: str,
        forecasts: dict[str, Forecast],
        costs: dict[str, Cost],
        given: Conditions,
        now: float,
    ) -> str | None:
        # On its way to the edge a frame tells of the link and of the edge by itself.
        others = () if self._options[chosen].needs_edge else costs
        candidates = [
            Candidate(
                name=name,
                hope=self._goal.hope(self._options[name], forecasts[name]),
                device_s=forecasts[name].gates_s + forecasts[name].device_s,
                latency_s=forecasts[name].latency_s,
                feared_s=forecasts[name].feared_s,
            )
            for name in others
            if self._options[name].needs_edge
        ]
        return self._curiosity.pick(
            candidates,
            chosen_amount=costs[chosen].amount,
            chosen_s=forecasts[chosen].latency_s,
            chosen_upper_s=forecasts[chosen].upper_s,
            remaining_s=given.remaining_s,
            now=now,
        )

    def _decision(
        self,
        name: str,
        forecast: Forecast,
        reason: Reason,
        usual_s: float,
        given: Conditions,
        now: float,
    ) -> Decision:
        option = self._options[name]
        placement = option.placement
        if isinstance(placement, Local):
            placement = Local(degraded=reason is Reason.NO_EDGE)
        if option.needs_edge:
            leaves_at = now + forecast.gates_s + forecast.device_s
            self._link_free_at = max(self._link_free_at, leaves_at) + forecast.transfer_s
            arrives_at = self._link_free_at + given.rtt_s / 2
            self._edge_free_at = max(self._edge_free_at, arrives_at) + forecast.server_s
            self._expected_s = forecast.upper_s
        return Decision(
            placement=placement,
            exit_point=option.point,
            forecast=forecast,
            reason=reason,
            usual_s=usual_s,
            decided_at=now,
        )


def _fits(option: Option, slots: SlotLink | None) -> bool:
    """Whether nearly every payload goes into the anonymous network's fixed size."""
    if slots is None or not option.needs_edge:
        return True
    largest = option.payload_bytes + _FITS_DEVIATIONS * option.payload_deviation_bytes
    return largest <= slots.payload_bytes
