"""Property 3: nothing sent beside a cell tells its owner (specification, 1.9.3).

The adversary is the relay with all guards but one. It guesses "client i owns nothing", computes
from the guess what the unknown pad of i would be, and tests whether the key lane of i fits it. In
PriFi's published code the lane's secret is a function of the pad, and the test names the owner in
every round: that variant is built here as the positive control. In ours the secret is keystream
that no pad uses, and the test fails for everybody alike.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.round.cell import CellKind, seal_cell
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.pads import single

Bytes = NDArray[np.uint8]
SecretOf = Callable[[bytes], bytes]
"""From a pair's stream of a round to its lane secrets."""

CLIENTS = 5
GEOMETRY = Geometry(clients=CLIENTS, cell_bytes=128)
PAYLOAD = GEOMETRY.payload_bytes
LANES = 2 * GEOMETRY.lane_bytes


def disjoint(stream: bytes) -> bytes:
    """Ours: keystream behind the pad."""
    return stream[PAYLOAD:]


def hashed(stream: bytes) -> bytes:
    """The broken variant: a hash of the pad."""
    return hashlib.shake_256(stream[:PAYLOAD]).digest(LANES)


def reduced(stream: bytes) -> bytes:
    """The broken variant without a hash: the pad itself, shortened."""
    return stream[:LANES]


@dataclass(frozen=True)
class View:
    """What the adversary sees of a round: ciphers, and the streams of the guards it owns."""

    lock: Lock
    payloads: list[Bytes]
    lanes: list[Bytes]
    known: list[list[bytes]]


def xor(parts: list[bytes], size: int) -> Bytes:
    total = np.zeros(size, np.uint8)
    for part in parts:
        total ^= np.frombuffer(part, np.uint8)
    return total


def play(round_: int, guards: int, owner: int, secret_of: SecretOf) -> View:
    """A round by the real streams, lock and cells; guard 0 is the honest one."""
    cipher = default_cipher()
    entropy = SeededEntropy(b"round%d" % round_)
    streams = [
        [
            single(
                cipher.stream(hashlib.sha256(b"%d/%d" % (client, guard)).digest()),
                GEOMETRY,
                round_,
            )
            for guard in range(guards)
        ]
        for client in range(CLIENTS)
    ]
    lock = Lock(hashlib.sha256(b"history%d" % round_).digest())
    payloads, lanes = [], []
    for client in range(CLIENTS):
        payload = xor([stream[:PAYLOAD] for stream in streams[client]], PAYLOAD)
        mask = lock.mask(xor([secret_of(s) for s in streams[client]], LANES).tobytes())
        lane = np.frombuffer(bytearray(mask), np.uint8)
        if client == owner:
            cell = seal_cell(
                cipher,
                GEOMETRY,
                kind=CellKind.DATA,
                body=b"hello",
                backlog=0,
                key=entropy.bytes(16),
            )
            payload ^= cell.payload
            lane[:16] ^= cell.key
        payloads.append(payload)
        lanes.append(lane)
    return View(lock, payloads, lanes, [streams[client][1:] for client in range(CLIENTS)])


def fitting(view: View, secret_of: SecretOf) -> set[int]:
    """The clients whose lanes fit the guess that they own nothing."""
    fits = set()
    for client in range(CLIENTS):
        known = view.known[client]
        pad = view.payloads[client] ^ xor([stream[:PAYLOAD] for stream in known], PAYLOAD)
        secrets = [secret_of(stream) for stream in known]
        unknown = secret_of(pad.tobytes().ljust(GEOMETRY.stream_bytes, b"\0"))
        expected = view.lock.mask(xor([*secrets, unknown], LANES).tobytes())
        if expected[:16] == view.lanes[client][:16].tobytes():
            fits.add(client)
    return fits


@pytest.mark.parametrize("guards", [1, 3])
@pytest.mark.parametrize("broken", [hashed, reduced])
def test_p3_tags_of_the_broken_variant_name_the_owner_every_time(
    guards: int, broken: SecretOf
) -> None:
    for round_ in range(100):
        owner = round_ % CLIENTS
        view = play(round_, guards, owner, broken)
        assert fitting(view, broken) == set(range(CLIENTS)) - {owner}


@pytest.mark.parametrize("guards", [1, 3])
@pytest.mark.parametrize("guess", [hashed, reduced])
def test_p3_tags_of_ours_tell_nothing(guards: int, guess: SecretOf) -> None:
    for round_ in range(100):
        view = play(round_, guards, round_ % CLIENTS, disjoint)
        assert fitting(view, guess) == set()


def test_p3_tags_owner_and_cover_lanes_have_one_distribution() -> None:
    """Each bit of an owner's and of a cover client's key lane is 1 in half of the rounds."""
    rounds = 400
    counts = np.zeros((2, 128))
    for round_ in range(rounds):
        view = play(round_, 1, 0, disjoint)
        for row, client in enumerate((0, 1)):
            counts[row] += np.unpackbits(view.lanes[client][:16])
    deviation = np.abs(counts - rounds / 2) / np.sqrt(rounds / 4)
    assert deviation.max() < 4.5
