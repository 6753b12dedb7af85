"""Property 6: every misbehaviour is pinned on exactly who did it, and the rest go on.

Each case below is run for several seeds, which choose who misbehaves, who speaks, the bits and the
geometry. Verdicts are checked at every party, and their evidence from its bytes alone.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from headtail_prifi.blame.evidence import verify_evidence
from headtail_prifi.blame.judge import Charge
from headtail_prifi.core.events import ClientDropped, EpochOver, VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy, uniform_below
from headtail_prifi.misbehaviour import (
    BluntProsecutor,
    ClosedWitness,
    DisputingWitness,
    FakingEngine,
    FalseWatch,
    ForgingMixGuard,
    LyingWitness,
    MisvouchingClient,
    RepeatingProsecutor,
    SilentWitness,
    charge_falsely,
    disrupt,
    disruptive_guard,
    engine_as,
    prosecutor_as,
    recast,
    witness_as,
)
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

SHORT_RUNS, LONG_RUNS = 5, 48
GEOMETRIES = (
    (3, 1, Geometry(clients=3, cell_bytes=128)),
    (4, 2, Geometry(clients=4, cell_bytes=200, sub_slots=2, window=3)),
    (5, 3, Geometry(clients=5, cell_bytes=128, sub_slots=3, window=1)),
)


@cache
def scene_of(number: int) -> Scene:
    clients, guards, geometry = GEOMETRIES[number]
    return set_scene(clients, guards, geometry)


@dataclass
class Run:
    """One seeded run: `bad` misbehaves, `victim` and others speak."""

    swarm: Swarm
    geometry: Geometry
    bad: int
    guard: int
    victim: int
    luck: SeededEntropy

    def pick(self, bound: int) -> int:
        return uniform_below(bound, self.luck)

    @property
    def bad_slot(self) -> int:
        return self.swarm.slot(self.bad)

    @property
    def victim_slot(self) -> int:
        return self.swarm.slot(self.victim)

    def cell_bits(self, sub_slot: int) -> range:
        size = 8 * self.geometry.cell_bytes
        return range(sub_slot * size, (sub_slot + 1) * size)

    def key_bits(self, sub_slot: int) -> range:
        start = 8 * self.geometry.key_lane_start(sub_slot)
        return range(start, start + 128)

    def some(self, bits: range) -> list[int]:
        """About half of some bits."""
        mask = self.luck.bytes(-(-len(bits) // 8))
        return [bit for at, bit in enumerate(bits) if mask[at >> 3] >> (at & 7) & 1]


def set_up(seed: int) -> Run:
    luck = SeededEntropy(b"p6/%d" % seed)
    number = seed % len(GEOMETRIES)
    clients, guards, geometry = GEOMETRIES[number]
    swarm = Swarm(
        scene_of(number),
        seed=b"%d" % seed,
        links=Links(delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03),
        relay_options=RelayOptions(patience_s=1.0),
    )
    bad = uniform_below(clients, luck)
    victim = (bad + 1 + uniform_below(clients - 1, luck)) % clients
    return Run(swarm, geometry, bad, uniform_below(guards, luck), victim, luck)


Case = Callable[[Run], tuple[Seat | int, Charge]]
"""Makes somebody misbehave; returns who is to be convicted (a seat, or a slot), and of what."""


def others_cells(
    run: Run, bits: Callable[[int], Iterable[int]], chance: int = 1
) -> Callable[[int, tuple[int, ...]], Iterator[int]]:
    """Flips in the sub-slots that others own, with chance 1 in `chance`."""

    def flips(round_: int, owners: tuple[int, ...]) -> Iterator[int]:
        for sub_slot, owner in enumerate(owners):
            if owner not in (NOBODY, run.bad_slot) and not run.pick(chance):
                yield from bits(sub_slot)

    return flips


def single_flips(run: Run) -> tuple[Seat | int, Charge]:
    def one(sub_slot: int) -> list[int]:
        bits = run.cell_bits(sub_slot)
        return [bits[run.pick(len(bits))]]

    disrupt(run.swarm.clients[run.bad], others_cells(run, one, chance=2))
    return client_seat(run.bad), Charge.DISRUPTED


def bursts(run: Run) -> tuple[Seat | int, Charge]:
    flips = others_cells(run, lambda sub_slot: run.some(run.cell_bits(sub_slot)), chance=2)
    disrupt(run.swarm.clients[run.bad], flips)
    return client_seat(run.bad), Charge.DISRUPTED


def jamming(run: Run) -> tuple[Seat | int, Charge]:
    """Every cell of others, accusations too: only the accusation shuffle gets out."""
    flips = others_cells(run, lambda sub_slot: run.some(run.cell_bits(sub_slot)))
    disrupt(run.swarm.clients[run.bad], flips)
    return client_seat(run.bad), Charge.DISRUPTED


def key_lane(run: Run) -> tuple[Seat | int, Charge]:
    flips = others_cells(run, lambda sub_slot: run.some(run.key_bits(sub_slot)), chance=2)
    disrupt(run.swarm.clients[run.bad], flips)
    return client_seat(run.bad), Charge.DISRUPTED


def reservation_lane(run: Run) -> tuple[Seat | int, Charge]:
    others = [slot for slot in range(run.geometry.clients) if slot != run.bad_slot]

    def flips(round_: int, owners: tuple[int, ...]) -> list[int]:
        return [run.geometry.reservation_bit(slot) for slot in others if run.pick(2)]

    disrupt(run.swarm.clients[run.bad], flips)
    return client_seat(run.bad), Charge.DISRUPTED


def vanishing_reservations(run: Run) -> tuple[Seat | int, Charge]:
    """Inverts one slot's reservation in every round: what it wants vanishes, until it probes."""
    bit = run.geometry.reservation_bit(run.victim_slot)
    disrupt(run.swarm.clients[run.bad], lambda round_, owners: [bit])
    return client_seat(run.bad), Charge.DISRUPTED


def guard_flips(run: Run) -> tuple[Seat | int, Charge]:
    @cache
    def flips(round_: int) -> list[int]:
        return run.some(range(8 * run.geometry.payload_bytes)) if round_ % 3 == 2 else []

    run.swarm.guards[run.guard] = disruptive_guard(run.swarm.guards[run.guard], flips)
    return guard_seat(run.guard), Charge.DISRUPTED


def guard_flips_a_lane(run: Run) -> tuple[Seat | int, Charge]:
    start = 8 * run.geometry.payload_bytes

    @cache
    def flips(round_: int) -> list[int]:
        return run.some(range(start, start + 128)) if round_ % 2 else []

    run.swarm.guards[run.guard] = disruptive_guard(run.swarm.guards[run.guard], flips)
    return guard_seat(run.guard), Charge.DISRUPTED


def client_lies(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    witness_as(run.swarm.clients[run.bad], LyingWitness)
    return client_seat(run.bad), Charge.LIED


def client_lies_and_stays_closed(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    witness_as(run.swarm.clients[run.bad], ClosedWitness)
    return client_seat(run.bad), Charge.LIED


def guard_lies(run: Run) -> tuple[Seat | int, Charge]:
    guard_flips(run)
    witness_as(run.swarm.guards[run.guard], LyingWitness)
    return guard_seat(run.guard), Charge.LIED


def client_disputes(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    witness_as(run.swarm.clients[run.bad], DisputingWitness)
    return client_seat(run.bad), Charge.DISPUTED


def guard_disputes(run: Run) -> tuple[Seat | int, Charge]:
    guard_flips(run)
    witness_as(run.swarm.guards[run.guard], DisputingWitness)
    return guard_seat(run.guard), Charge.DISPUTED


def client_refuses(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    witness_as(run.swarm.clients[run.bad], SilentWitness)
    return client_seat(run.bad), Charge.SILENT


def guard_refuses(run: Run) -> tuple[Seat | int, Charge]:
    guard_flips(run)
    witness_as(run.swarm.guards[run.guard], SilentWitness)
    return guard_seat(run.guard), Charge.SILENT


def client_does_not_vouch(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    run.swarm.clients[run.bad] = recast(run.swarm.clients[run.bad], MisvouchingClient)
    return client_seat(run.bad), Charge.UNVOUCHED


def relay_fakes_and_charges(run: Run) -> tuple[Seat | int, Charge]:
    engine_as(run.swarm.relay, FakingEngine)
    scapegoats = [client_seat(run.bad), guard_seat(run.guard)]
    charge_falsely(run.swarm.relay, scapegoats[run.pick(2)])
    return RELAY, Charge.MISSTATED


def relay_fakes_and_shows_its_record(run: Run) -> tuple[Seat | int, Charge]:
    engine_as(run.swarm.relay, FakingEngine)
    prosecutor_as(run.swarm.relay, BluntProsecutor)
    return RELAY, Charge.BOGUS_CASE


def relay_uses_an_accusation_twice(run: Run) -> tuple[Seat | int, Charge]:
    bursts(run)
    prosecutor_as(run.swarm.relay, RepeatingProsecutor)
    return RELAY, Charge.DOUBLE_CASE


def owner_accuses_its_own_bit(run: Run) -> tuple[Seat | int, Charge]:
    """It spoils its own cell, and accuses a bit that it set itself."""

    def flips(round_: int, owners: tuple[int, ...]) -> Iterator[int]:
        for sub_slot, owner in enumerate(owners):
            if owner == run.bad_slot and not run.pick(2):
                yield from run.some(run.cell_bits(sub_slot))

    disrupt(run.swarm.clients[run.bad], flips)
    return client_seat(run.bad), Charge.DISRUPTED


def owner_accuses_a_bit_that_came_as_sent(run: Run) -> tuple[Seat | int, Charge]:
    owner_accuses_its_own_bit(run)
    client = run.swarm.clients[run.bad]
    client._watch = recast(client._watch, FalseWatch)
    return run.bad_slot, Charge.FALSE_ACCUSATION


def guard_forges_a_mix(run: Run) -> tuple[Seat | int, Charge]:
    jamming(run)
    guard = run.swarm.guards[run.guard]
    guard._mix = recast(guard._mix, ForgingMixGuard)
    return guard_seat(run.guard), Charge.BAD_MIX


CASES: tuple[Case, ...] = (
    single_flips,
    bursts,
    jamming,
    key_lane,
    reservation_lane,
    vanishing_reservations,
    guard_flips,
    guard_flips_a_lane,
    client_lies,
    client_lies_and_stays_closed,
    guard_lies,
    client_disputes,
    guard_disputes,
    client_refuses,
    guard_refuses,
    client_does_not_vouch,
    relay_fakes_and_charges,
    relay_fakes_and_shows_its_record,
    relay_uses_an_accusation_twice,
    owner_accuses_its_own_bit,
    owner_accuses_a_bit_that_came_as_sent,
    guard_forges_a_mix,
)
UNPROVEN = (Charge.SILENT, Charge.UNVOUCHED, Charge.BAD_MIX)


def verdicts(swarm: Swarm, culprit: Seat | int) -> list[VerdictReached]:
    """What the honest parties found."""
    return [
        each.event
        for each in swarm.happened
        if isinstance(each.event, VerdictReached) and each.seat != culprit
    ]


def play(run: Run) -> None:
    """Everybody speaks until there is a verdict, and for some rounds more."""
    swarm = run.swarm
    for number in range(12):
        for client in range(run.geometry.clients):
            swarm.send(client, b"%d" % number)
    swarm.start()
    assert swarm.run(lambda: bool(swarm.events(VerdictReached)), 120.0)
    swarm.run_until(swarm.now + 2.0)


def check(case: Case, seed: int) -> None:
    run = set_up(seed)
    culprit, charge = case(run)
    play(run)
    epoch = run.swarm.scene.finished.epoch
    found = verdicts(run.swarm, culprit)
    assert {verdict.charge for verdict in found} == {charge}
    for verdict in found:
        assert (verdict.slot if verdict.culprit is None else verdict.culprit) == culprit
        if charge in UNPROVEN:
            assert verdict.evidence == b""
        else:
            ruling = verify_evidence(verdict.evidence, epoch)
            assert (ruling.culprit, ruling.slot, ruling.charge) == (
                verdict.culprit,
                verdict.slot,
                charge,
            )
    if isinstance(culprit, Seat):
        check_sequel(run, culprit)


def check_sequel(run: Run, culprit: Seat) -> None:
    """A client is out and the others are heard again; without a guard or relay it is over."""
    swarm = run.swarm
    if culprit.role is not Role.CLIENT:
        assert swarm.events(EpochOver)
        return
    dropped = [event.client for event in swarm.events(ClientDropped, RELAY)]
    assert dropped == [culprit.index]
    if run.geometry.clients - 1 < 2:
        return
    assert culprit.index not in swarm.relay.membership.clients
    assert len(swarm.relay.membership.clients) == run.geometry.clients - 1
    swarm.send(run.victim, b"free again")
    assert swarm.run(lambda: b"free again" in swarm.bodies(run.victim_slot), swarm.now + 20.0)
    assert sorted(set(swarm.bodies(run.victim_slot)) - {b"free again"}, key=int) == [
        b"%d" % number for number in range(12)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_p6_blame_names_exactly_the_culprit(case: Case) -> None:
    for seed in range(SHORT_RUNS):
        check(case, seed)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_p6_blame_names_exactly_the_culprit_in_a_thousand_runs(case: Case) -> None:
    for seed in range(SHORT_RUNS, SHORT_RUNS + LONG_RUNS):
        check(case, seed)


def spoilt_cells_before_an_accusation(seed: int) -> int:
    """How many single flips it takes until one can be accused; the accusation gets through."""
    run = set_up(seed * len(GEOMETRIES))
    flipped: list[int] = []
    turns: list[int] = []

    def flips(round_: int, owners: tuple[int, ...]) -> list[int]:
        if run.victim_slot not in owners:
            return []
        turns.append(round_)
        if len(turns) % 4:
            return []
        flipped.append(round_)
        bits = run.cell_bits(owners.index(run.victim_slot))
        return [bits[run.pick(len(bits))]]

    disrupt(run.swarm.clients[run.bad], flips)
    for number in range(400):
        run.swarm.send(run.victim, b"%d" % number)
    run.swarm.start()
    assert run.swarm.run(lambda: bool(run.swarm.relay._prosecutor._intake._charged), 100.0)
    (accusation,) = run.swarm.relay._prosecutor._intake._charged
    return flipped.index(accusation.round) + 1


def test_p6_blame_of_single_flips_takes_two_spoilt_cells_on_average() -> None:
    """A flip can be accused when it turns a 0 into a 1: half of the time (geometric)."""
    counts = [spoilt_cells_before_an_accusation(seed) for seed in range(40)]
    assert 1.5 < sum(counts) / len(counts) < 2.6
    assert 10 <= counts.count(1) <= 30
