"""Property 4: sizes, counts, order and the work before an answer don't depend on ownership."""

import gc
import sys
import time
from collections import Counter
from math import exp, sqrt
from types import FrameType
from typing import Any

import numpy as np
import pytest

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Kind
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.core.seat import RELAY, Role, client_seat
from headtail_prifi.round.announcer import Announcer
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.schedule import encode_owners
from headtail_prifi.swarm import Links, Scene, Sighting, Swarm, set_scene

GEOMETRY = Geometry(clients=4, cell_bytes=256, sub_slots=2, window=2)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(4, 2, GEOMETRY)


def downs(swarm: Swarm, client: int) -> list[bytes]:
    """The downstream frames that a client got."""
    return [
        each.frame
        for each in swarm.sightings or []
        if each.target == client_seat(client) and each.frame[0] == Kind.DOWN
    ]


def busy_swarm(scene: Scene, speakers: range, cells: int, rounds: int) -> Swarm:
    links = Links(delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.1)
    swarm = Swarm(scene, links=links)
    swarm.sightings = []
    for client in speakers:
        for number in range(cells):
            swarm.send(client, b"%d" % number)
    swarm.start()
    swarm.run_rounds(rounds)
    return swarm


def upstream(swarm: Swarm, client: int) -> list[Sighting]:
    return [
        each
        for each in swarm.sightings or []
        if each.source == client_seat(client) and each.target == RELAY
    ]


def test_p4_shape_every_client_sends_alike(scene: Scene) -> None:
    swarm = busy_swarm(scene, range(1), 60, 100)
    shapes = [
        [(each.at, len(each.frame), each.frame[:2]) for each in upstream(swarm, client)]
        for client in range(4)
    ]
    assert len(shapes[0]) > 90
    assert all(shape == shapes[0] for shape in shapes)


def test_p4_shape_a_speaker_sends_as_often_and_as_much_as_a_silent_client(scene: Scene) -> None:
    sizes = [
        Counter(len(each.frame) for each in upstream(busy_swarm(scene, range(n), 60, 100), 2))
        for n in (2, 3)
    ]
    assert sizes[0] == sizes[1]


class Tracer:
    """Every call, of Python and of C, by name; and how large the arrays are that it works on."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self.calls.append(frame.f_code.co_qualname)
        elif event == "c_call":
            self.calls.append(getattr(arg, "__qualname__", repr(arg)))


def traced(client: ClientCore, frame: bytes) -> list[str]:
    tracer = Tracer()
    gc.disable()  # a collection may call back in the middle
    sys.setprofile(tracer)
    try:
        client.receive(frame, 0.0)
    finally:
        sys.setprofile(None)
        gc.enable()
    client.to_send(0.0)
    while client.next_event() is not None:
        pass
    return tracer.calls


def test_p4_shape_owner_and_cover_make_the_same_calls(scene: Scene) -> None:
    swarm = busy_swarm(scene, range(2), 30, 100)
    frames = downs(swarm, 0)
    replay = Swarm(scene)
    for client in range(2):
        for number in range(30):
            replay.clients[client].send(b"%d" % number)
    owned = 0
    for frame in frames:
        traces = [traced(client, frame) for client in replay.clients]
        assert all(trace == traces[0] for trace in traces)
        owned += any(each.owned for _, each in replay.clients[0]._outbound._taken)
    assert len(frames) > 90
    assert len(swarm.bodies(swarm.slot(0))) > 20


def ks_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The two-sample Kolmogorov-Smirnov statistic."""
    values = np.concatenate((one, other))
    ranks = [np.searchsorted(np.sort(each), values, "right") / len(each) for each in (one, other)]
    return float(np.abs(ranks[0] - ranks[1]).max())


def ks_p_value(distance: float, one: int, other: int) -> float:
    """Its asymptotic significance."""
    size = sqrt(one * other / (one + other))
    scaled = (size + 0.12 + 0.11 / size) * distance
    signs = [1.0 if k % 2 else -1.0 for k in range(1, 101)]
    terms = [2 * sign * exp(-2 * (k * scaled) ** 2) for k, sign in enumerate(signs, 1)]
    return min(1.0, max(0.0, sum(terms)))


def test_p4_shape_the_statistic_tells_distributions_apart() -> None:
    """Positive control of the timing test below."""
    random = np.random.default_rng(1)
    same = ks_distance(random.normal(size=5000), random.normal(size=5000))
    moved = ks_distance(random.normal(size=5000), random.normal(0.1, size=5000))
    assert ks_p_value(same, 5000, 5000) > 1e-3
    assert ks_p_value(moved, 5000, 5000) < 1e-3


def random_owners(scene: Scene, rounds: int, seed: int) -> tuple[list[bytes], list[bool]]:
    """Downstream frames with an owner drawn anew each round, and whether it is client 0."""
    draws = [bool(bit) for bit in np.random.default_rng(seed).integers(0, 2, rounds)]
    announcer = Announcer(
        epoch_id=scene.finished.epoch.epoch_id,
        geometry=GEOMETRY,
        signing_key=scene.enrolment.relay,
        max_waiting=1,
    )
    slots = [scene.finished.clients[client].slot for client in (0, 1)]
    frames = [
        announcer.announce(encode_owners((slots[not mine], NOBODY)), 0, None) for mine in draws
    ]
    return frames, draws


@pytest.mark.long
def test_p4_shape_response_times_of_owner_and_cover_over_ten_thousand_rounds(scene: Scene) -> None:
    """One client answers as owner or as cover, at random, 10,000 times each and more."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(60):
        frames, draws = random_owners(scene, 400, seed)
        client = Swarm(scene).clients[0]
        for number in range(400):
            client.send(b"%d" % number)
        for frame, mine in zip(frames, draws, strict=True):
            begin = time.perf_counter()
            client.receive(frame, 0.0)
            spent = time.perf_counter() - begin
            client.to_send(0.0)
            while client.next_event() is not None:
                pass
            times[mine].append(spent)
    samples = [np.array(times[key]) for key in (True, False)]
    assert min(map(len, samples)) > 10_000
    distance = ks_distance(*samples)
    assert ks_p_value(distance, *map(len, samples)) > 1e-3, (distance, np.median(samples[0]))
