"""What happens to a fleet, and what it wants done.

What callers are told is as with one scheduler (`core.actions`); the rest names the instance.
"""

from dataclasses import dataclass

from headtail_cloud.core.actions import Accept, EmitToken, Finish, Reject, Step
from headtail_cloud.core.engine import StateRef
from headtail_cloud.core.events import (
    DrainAsked,
    RequestArrived,
    RequestCancelled,
    StepFailed,
    StepFinished,
    TimePassed,
)
from headtail_cloud.instances.ladder import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    instance: str
    end: StepFinished | StepFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStarted:
    """`took_s`: from the tier that it was started from."""

    instance: str
    tier: Tier
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLost:
    """It died. While a step runs there it need not be said: the step will fail."""

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNotStarted:
    instance: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChanged:
    """From now on instances of the group start from there."""

    group: str
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnnounced:
    """A request for that model is due in that time: its head has started."""

    group: str
    due_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateExported:
    move: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateImported:
    move: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRefused:
    """An export or an import was not possible."""

    move: int
    reason: str


FleetEvent = (
    RequestArrived
    | RequestCancelled
    | TimePassed
    | DrainAsked
    | StepEnded
    | InstanceStarted
    | InstanceLost
    | InstanceNotStarted
    | TierChanged
    | RequestAnnounced
    | StateExported
    | StateImported
    | StateRefused
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    instance: str
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class StartInstance:
    """Start it, or start it again."""

    instance: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopInstance:
    """It has nothing left to do."""

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportState:
    """Between two steps."""

    instance: str
    move: int
    state: StateRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportState:
    """Between two steps."""

    instance: str
    move: int
    state: StateRef
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A request goes on elsewhere. `pause_s`: how long it stood still; `stages`: copies."""

    request_id: str
    source: str
    target: str
    why: str
    pause_s: float
    stages: int


Told = Accept | EmitToken | Finish | Reject
FleetAction = Told | RunStep | StartInstance | StopInstance | ExportState | ImportState | Moved
