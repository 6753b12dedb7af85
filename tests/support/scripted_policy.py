"""A policy that decides what it is told to, and notes what became of it."""

from collections import deque
from collections.abc import Iterable

from device_doubles import WAY
from headtail_device.decision import Decision, Experience, Forecast, Reason
from headtail_device.placement import Local, Observation, Placement


def forecast(*, latency_s: float = 0.1, upper_s: float = 0.2, drop: float = 0.002) -> Forecast:
    return Forecast(
        gates_s=0.0,
        device_s=0.01,
        transfer_s=0.02,
        rtt_s=0.01,
        queue_s=0.0,
        server_s=0.05,
        payload_bytes=100.0,
        latency_s=latency_s,
        upper_s=upper_s,
        hoped_s=latency_s,
        feared_s=upper_s,
        sent_bytes=100.0,
        energy_j=1.0,
        hoped_j=1.0,
        drop=drop,
    )


class ScriptedPolicy:
    """Takes `placements` one after the other, the last of them for ever; without a usable edge
    local, degraded."""

    def __init__(
        self,
        placements: Iterable[Placement] = (WAY,),
        *,
        expects: Forecast | None = None,
        exit_point: str = "",
    ) -> None:
        self._placements = deque(placements)
        self._expects = expects or forecast()
        self._exit_point = exit_point
        self.seen: list[Observation] = []
        self.decided: list[Decision] = []
        self.told: list[tuple[Decision, Experience]] = []

    def place(self, seen: Observation) -> Decision:
        placement = self._placements[0]
        if len(self._placements) > 1:
            self._placements.popleft()
        missed = not isinstance(placement, Local) and not seen.edge_usable
        decision = Decision(
            placement=Local(degraded=True) if missed else placement,
            exit_point=self._exit_point,
            reason=Reason.NO_EDGE if missed else Reason.BEST,
            forecast=self._expects,
            decided_at=seen.now,
        )
        self.seen.append(seen)
        self.decided.append(decision)
        return decision

    def finished(self, decision: Decision, was: Experience, now: float) -> None:
        assert all(decision is not known for known, _ in self.told), "told twice"
        self.told.append((decision, was))

    def last(self) -> Experience:
        return self.told[-1][1]
