"""Many instances as one, sans-IO: events in, actions out, like the scheduler of one engine.

    RequestArrived -> the soonest instance's scheduler -> Accept or Reject, RunStep
    StepEnded -> EmitToken, Finish, RunStep; when the engine was lost, its requests go elsewhere
    TimePassed -> StartInstance, StopInstance, moves

Every request that was accepted is in exactly one scheduler until it ends. The caller acts in the
order of the list. It does steps, exports and imports of one instance one after the other, in that
order; what it is asked of an instance that was lost in the meantime it answers with StepFailed and
StateRefused.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headtail_cloud.core.actions import Action, Finish, Reason, Reject, StartStep
from headtail_cloud.core.events import (
    DrainAsked,
    EngineGone,
    EngineStarted,
    EngineStopped,
    RequestArrived,
    RequestCancelled,
    StepFailed,
    TimePassed,
)
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.dispatch.events import (
    FleetAction,
    FleetEvent,
    InstanceLost,
    InstanceNotStarted,
    InstanceStarted,
    Moved,
    RequestAnnounced,
    RunStep,
    StartInstance,
    StateExported,
    StateImported,
    StateRefused,
    StepEnded,
    StopInstance,
    TierChanged,
)
from headtail_cloud.dispatch.group import Group, GroupPlan, key_of
from headtail_cloud.dispatch.member import Member, Standing, Turn
from headtail_cloud.dispatch.placement import Candidate, by_total
from headtail_cloud.dispatch.relocation import Relocation, Under
from headtail_cloud.migration.policy import moves

TICK_S: Final = 0.5
"""How often instances are counted and moves considered."""
MAX_STARTS: Final = 3
"""Failed starts of an instance, one after the other, before it is given up."""
_FIRST_RETRY_S: Final = 0.25
_REST_S: Final = 10.0
"""How long after an instance was given up none is started but for a request."""


class Fleet:
    """Not thread-safe; never looks at a clock."""

    def __init__(self, plans: Iterable[GroupPlan], options: SchedulerOptions | None = None) -> None:
        """Raises ValueError when two groups serve the same."""
        self._groups: dict[str, Group] = {}
        self._by_key: dict[object, Group] = {}
        for plan in plans:
            group = Group(plan, options or SchedulerOptions())
            self._groups[plan.name] = group
            for key in plan.serves:
                if self._by_key.setdefault(key, group) is not group:
                    raise ValueError(f"{key} is served by two groups")
        self._members: dict[str, Member] = {}
        self._homes: dict[str, Member] = {}
        self._requests: dict[str, Request] = {}
        self._relocation = Relocation()
        self._draining = False
        self._tick_at = -math.inf
        self._must_relocate = False

    def __repr__(self) -> str:
        state = "draining" if self._draining else "open"
        return f"<Fleet {state}, {len(self)} here, {list(self._members.values())!r}>"

    def __len__(self) -> int:
        """Requests that are here."""
        return len(self._requests)

    @property
    def idle(self) -> bool:
        """Whether nothing is here and nothing runs."""
        return all(member.scheduler.idle for member in self._members.values())

    @property
    def members(self) -> tuple[Member, ...]:
        """Every instance that there is, or is being started."""
        return tuple(self._members.values())

    def next_timer(self, now: float) -> float:
        """When it wants `TimePassed`."""
        times = [member.scheduler.next_timer() for member in self._members.values()]
        times += [member.restart_at for member in self._members.values()]
        times += [group.next_timer(now) for group in self._groups.values()]
        return min([self._tick_at, *(at for at in times if at is not None)])

    def on_event(self, event: FleetEvent, now: float) -> list[FleetAction]:
        """What is to be done about it. Raises ValueError for a request that is here already or that
        no group serves, and for what can't be of an instance: the caller's bugs."""
        actions = list(self._happened(event, now))
        if now >= self._tick_at:
            self._tick_at = now + TICK_S
            self._must_relocate = True
        if self._must_relocate:
            self._must_relocate = False
            actions += self._relocate(now)
        return actions

    def _happened(self, event: FleetEvent, now: float) -> Iterator[FleetAction]:
        match event:
            case RequestArrived(request=request):
                yield from self._arrived(request, now)
            case RequestCancelled(request_id=request_id):
                if home := self._homes.get(request_id):
                    yield from self._tell(home, home.scheduler.on_event(event, now), now)
                    yield from self._follow_moves(home, now)
            case StepEnded():
                yield from self._step_ended(event, now)
            case InstanceStarted():
                yield from self._started(event, now)
            case InstanceLost(instance=instance):
                member = self._members.get(instance)
                if member is not None and member.may_be_lost:
                    yield from self._lost(member, now)
                    yield from self._spread(member, now)
            case InstanceNotStarted(instance=instance, reason=reason):
                yield from self._not_started(self._members[instance], reason, now)
            case StateExported(move=move, data=data):
                if under := self._relocation.find(move):
                    yield from self._relocation.exported(under, data)
            case StateImported(move=move):
                if under := self._relocation.find(move):
                    self._relocation.imported(under)
                    yield from self._follow(under, now)
            case StateRefused(move=move):
                if under := self._relocation.find(move):
                    self._relocation.abort(under)
                    yield from self._poke(under.source, now)
            case TierChanged(group=name, tier=tier):
                self._groups[name].ladder.tier = tier
            case RequestAnnounced(group=name, due_in_s=due_in_s):
                self._groups[name].prewarm.announced(due_in_s, now)
                yield from self._scale(self._groups[name], now)
            case DrainAsked():
                self._draining = True
                for member in self._members.values():
                    yield from self._tell(member, member.scheduler.on_event(event, now), now)
            case TimePassed():
                for member in list(self._members.values()):
                    yield from self._poke(member, now)
                    yield from self._retire(member)
                yield from self._restart(now)
                for group in self._groups.values():
                    yield from self._scale(group, now)

    def _arrived(self, request: Request, now: float) -> Iterator[FleetAction]:
        group = self._by_key.get(key_of(request))
        if group is None:
            raise ValueError(f"nobody serves {key_of(request)}")
        if request.id in self._requests:
            raise ValueError(f"request {request.id!r} is here already")
        if self._draining:
            yield Reject(request_id=request.id, reason=Reason.DRAINING, retry_after_s=None)
            return
        refusal: Reject | None = None
        for candidate in self._candidates(group, request, now):
            member = group.members.get(candidate.instance) or self._begin(group, now)
            told = member.scheduler.on_event(RequestArrived(request=request), now)
            first = told[0]
            if not isinstance(first, Reject):
                if member.name not in self._members:
                    yield from self._add(group, member)
                self._homes[request.id] = member
                self._requests[request.id] = request
                group.entered(request, now)
                yield from self._tell(member, told, now)
                return
            refusal = refusal or first
            yield from self._tell(member, told[1:], now)
            if first.reason is Reason.COLD_START and not group.members:
                # Too late for this one, but others will come.
                group.prewarm.announced(group.ladder.start_s, now)
                yield from self._add(group, member)
        yield refusal or Reject(
            request_id=request.id, reason=Reason.QUEUE_FULL, retry_after_s=group.ladder.start_s
        )

    def _candidates(self, group: Group, request: Request, now: float) -> list[Candidate]:
        """Who could take it, the soonest first; another instance among them, if there may be
        one."""
        members = [member for member in group.members.values() if member.takes(request)]
        members = members or group.open_members
        roomy = [member for member in members if not member.scheduler.full]
        if len(group.open_members) == group.plan.scaling.most and not roomy:
            # Forecasts cost more than refusals, and would not change them.
            return [Candidate(instance=member.name) for member in members[:1]]
        there = [
            member.candidate(request, transfer_s=group.plan.transfer_s, now=now) for member in roomy
        ]
        if len(group.open_members) < group.plan.scaling.most:
            run_s = min((candidate.run_s for candidate in there), default=0.0)
            start_s = group.ladder.start_s
            there.append(Candidate(instance="", start_s=start_s, run_s=run_s))
        return by_total(there)

    def _begin(self, group: Group, now: float) -> Member:
        """An instance that is to be started, if it is taken."""
        member = group.new_member(now)
        member.scheduler.on_event(EngineStopped(ready_at=member.ready_at), now)
        return member

    def _add(self, group: Group, member: Member) -> Iterator[FleetAction]:
        group.members[member.name] = member
        self._members[member.name] = member
        yield StartInstance(instance=member.name, group=group.plan.name)

    def _step_ended(self, event: StepEnded, now: float) -> Iterator[FleetAction]:
        member = self._members[event.instance]
        lost = isinstance(event.end, StepFailed) and event.end.state_lost
        if lost:
            yield from self._lost(member, now)
        yield from self._tell(member, member.scheduler.on_event(event.end, now), now)
        if lost:
            yield from self._spread(member, now)
        yield from self._follow_moves(member, now)
        yield from self._retire(member)
        self._must_relocate = self._must_relocate or member.gives_away

    def _lost(self, member: Member, now: float) -> Iterator[FleetAction]:
        """Its engine is gone: what is here waits for another one, or goes elsewhere."""
        for under in self._relocation.at(member):
            self._relocation.abort(under)
        member.turn(Turn.LOST)
        yield from self._start_again(member, now)

    def _start_again(self, member: Member, now: float) -> Iterator[FleetAction]:
        member.ready_at = now + self._group(member).ladder.start_s
        member.scheduler.on_event(EngineStopped(ready_at=member.ready_at), now)
        yield StartInstance(instance=member.name, group=member.group)

    def _started(self, event: InstanceStarted, now: float) -> Iterator[FleetAction]:
        member = self._members[event.instance]
        group = self._group(member)
        group.ladder.started(event.tier, event.took_s)
        member.failures = 0
        member.turn(Turn.STARTED)
        yield from self._tell(member, member.scheduler.on_event(EngineStarted(), now), now)

    def _not_started(self, member: Member, reason: str, now: float) -> Iterator[FleetAction]:
        member.failures += 1
        if member.failures < MAX_STARTS:
            member.restart_at = now + _FIRST_RETRY_S * 2 ** (member.failures - 1)
            ready_at = member.restart_at + self._group(member).ladder.start_s
            member.scheduler.on_event(EngineStopped(ready_at=ready_at), now)
            return
        member.ready_at = math.inf
        self._group(member).rests_until = now + _REST_S
        yield from self._spread(member, now)
        gone = EngineGone(message=f"no instance could be started: {reason}")
        yield from self._tell(member, member.scheduler.on_event(gone, now), now)
        yield from self._remove(member)

    def _restart(self, now: float) -> Iterator[FleetAction]:
        for member in self._members.values():
            if member.restart_at is not None and member.restart_at <= now:
                member.restart_at = None
                yield from self._start_again(member, now)

    def _spread(self, member: Member, now: float) -> Iterator[FleetAction]:
        """Whatever would be done sooner elsewhere goes there."""
        group = self._group(member)
        for job in member.scheduler.jobs:
            others = [
                other
                for other in group.members.values()
                if other is not member
                and other.standing is Standing.RUNNING
                and other.takes(job.request)
            ]
            candidates = by_total(
                one.candidate(job.request, transfer_s=group.plan.transfer_s, now=now)
                for one in (member, *others)
            )
            target = group.members[candidates[0].instance]
            if target is not member:
                member.scheduler.release(job.request.id)
                self._homes[job.request.id] = target
                yield from self._tell(target, target.scheduler.adopt(job, now), now)

    def _scale(self, group: Group, now: float) -> Iterator[FleetAction]:
        if self._draining:
            return
        wanted = min(group.desired(now), group.plan.scaling.most)
        there = len(group.open_members)
        draining = [m for m in group.members.values() if m.standing is Standing.DRAINING]
        for member in draining[: max(0, wanted - there)]:
            member.turn(Turn.KEEP)
            there += 1
        resting = now < group.rests_until
        for _ in range(0 if resting else wanted - there):
            yield from self._add(group, self._begin(group, now))
        for _ in range(there - wanted):
            victim = group.least_busy()
            if victim is None or victim.standing is not Standing.RUNNING:
                return
            victim.turn(Turn.DRAIN)
            self._must_relocate = True
            yield from self._retire(victim)

    def _relocate(self, now: float) -> Iterator[FleetAction]:
        views = [
            member.view(
                self._relocation.moving(member),
                max_batch=self._group(member).plan.capacity.max_batch,
            )
            for member in self._members.values()
            if member.standing is not Standing.STARTING
        ]
        for move in moves(views):
            source, target = self._members[move.source], self._members[move.target]
            under = self._relocation.begin(move, source, target)
            if under is not None:
                yield from self._follow(under, now)

    def _follow_moves(self, member: Member, now: float) -> Iterator[FleetAction]:
        for under in self._relocation.at(member):
            if under.source is member:
                yield from self._follow(under, now)

    def _follow(self, under: Under, now: float) -> Iterator[FleetAction]:
        """The next thing to do for a move; its end, when that is here."""
        yield from self._relocation.step(under, now)
        if self._relocation.find(under.id) is None:
            yield from self._poke(under.source, now)
        elif under.migration.complete:
            self._relocation.done(under)
            self._homes[under.move.request_id] = under.target
            started = under.migration.commit(now)
            paused_at = under.migration.paused_at
            yield Moved(
                request_id=under.move.request_id,
                source=under.source.name,
                target=under.target.name,
                why=under.move.why,
                pause_s=0.0 if paused_at is None else now - paused_at,
                stages=under.migration.stages,
            )
            yield from self._tell(under.target, started, now)
            yield from self._poke(under.source, now)
            yield from self._retire(under.source)

    def _poke(self, member: Member, now: float) -> Iterator[FleetAction]:
        yield from self._tell(member, member.scheduler.on_event(TimePassed(), now), now)

    def _retire(self, member: Member) -> Iterator[FleetAction]:
        """One that is to go goes when it has nothing left."""
        draining = member.standing is Standing.DRAINING
        if draining and member.scheduler.idle and not self._relocation.at(member):
            yield from self._remove(member)

    def _remove(self, member: Member) -> Iterator[FleetAction]:
        del self._members[member.name]
        del self._group(member).members[member.name]
        yield StopInstance(instance=member.name)

    def _tell(self, member: Member, actions: Sequence[Action], now: float) -> Iterator[FleetAction]:
        for action in actions:
            match action:
                case StartStep(step=step):
                    yield RunStep(instance=member.name, step=step)
                case Finish(request_id=request_id):
                    request = self._requests.pop(request_id)
                    del self._homes[request_id]
                    self._group(member).left(request, now)
                    yield action
                case _:
                    yield action

    def _group(self, member: Member) -> Group:
        return self._groups[member.group]
