"""Frozen bytes of the round loop: whoever changes them breaks every running DC-net.

`tests/vectors/prifi-round-v1.json` holds inputs and outputs; run this file as a script to write it
anew after a change of the format, and raise the format's number then.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from headtail_prifi.blame.accusation import Accusation, unpack_accusation
from headtail_prifi.core.body import Body, decode_body, encode_body
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, read_header
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.messages import (
    Disclosure,
    Down,
    Endorse,
    Grant,
    Leave,
    Nack,
    Propose,
    Report,
    Retirement,
)
from headtail_prifi.core.seat import client_seat, guard_seat
from headtail_prifi.crypto.cipher import cipher_named
from headtail_prifi.round.cell import CellKind, seal_cell
from headtail_prifi.round.history import first_link, next_link
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.pads import combined
from headtail_prifi.round.voucher import CipherLog, cipher_digest
from headtail_prifi.swarm import Swarm, set_scene

VECTORS = Path(__file__).parents[1] / "vectors" / "prifi-round-v1.json"
GEOMETRY = Geometry(clients=3, cell_bytes=128, sub_slots=2, window=2)
EPOCH_ID = bytes(range(32))

BODIES: dict[str, Body] = {
    "down": Down(owners=b"\x00\x02\xff\xff"),
    "down, full": Down(
        owners=b"\x00\x02\xff\xff",
        reports=(Report(round=7, echoes=bytes(32), reservations=bytes(16)),),
        disclosure=Disclosure(round=7, sub_slot=1, payload=bytes(128), key=bytes(16)),
        certificate=Certificate(version=1, clients=b"\xc0", signatures=(bytes(64),)),
        retirement=Retirement(last_round=90, successor=bytes(32)),
        data=(b"data", b""),
    ),
    "nack": Nack(count=3),
    "grant": Grant(count=64),
    "propose": Propose(version=1, clients=b"\xc0"),
    "endorse": Endorse(signature=bytes(64)),
    "leave": Leave(),
}


def accusation() -> Accusation:
    return Accusation(
        version=1, round=2, position=3, slot=4, record=bytes(32), proof=bytes(range(64))
    )


def transcript(name: str) -> str:
    """The hash of every frame of a run of 70 rounds."""
    swarm = Swarm(set_scene(3, 2, GEOMETRY, group="p256"), cipher=cipher_named(name))
    swarm.sightings = []
    swarm.send(1, b"hello")
    swarm.broadcast(b"news")
    swarm.start()
    swarm.run_rounds(70)
    digest = hashlib.sha256()
    for sighting in swarm.sightings:
        digest.update(sighting.source.encode() + sighting.frame)
    return digest.hexdigest()


def compute() -> dict[str, Any]:
    link = next_link(first_link(EPOCH_ID), b"a downstream frame")
    stream = cipher_named("pycryptodome").stream(b"k" * 32)
    cell = seal_cell(
        cipher_named("pycryptodome"),
        GEOMETRY,
        kind=CellKind.DATA,
        body=b"hello",
        backlog=3,
        key=b"one-time key 16B",
    )
    log = CipherLog(epoch_id=EPOCH_ID, version=0, seat=client_seat(1), first_round=0, retain=100)
    for round_ in range(5):
        log.add(round_, b"%d" % round_)
    return {
        "header": Header(Kind.UP, 1, 513, 70_000, 0xABCD, 2).encode().hex(),
        "geometry": GEOMETRY.encode().hex(),
        "bodies": {name: encode_body(body).hex() for name, body in BODIES.items()},
        "accusation": accusation().pack().hex(),
        "first link": first_link(EPOCH_ID).hex(),
        "next link": link.hex(),
        "lock": Lock(link).mask(bytes(range(64))).hex(),
        "stream of round 5": combined([stream], GEOMETRY, 5, 1)[0].tobytes().hex(),
        "cell": (cell.payload.tobytes() + cell.key.tobytes()).hex(),
        "echo": cell.echo.hex(),
        "cipher digest": cipher_digest(b"cipher").hex(),
        "root of five": log._root(0, 5).hex(),
        "seats": [client_seat(5).encode().hex(), guard_seat(2).encode().hex()],
        "transcript": transcript("pycryptodome"),
    }


def test_bytes_are_as_frozen() -> None:
    frozen = json.loads(VECTORS.read_text())
    assert compute() == frozen


def test_the_other_cipher_gives_the_same_transcript() -> None:
    assert transcript("cryptography") == json.loads(VECTORS.read_text())["transcript"]


def test_frozen_bytes_are_read_back() -> None:
    frozen = json.loads(VECTORS.read_text())
    header = read_header(bytes.fromhex(frozen["header"]))
    assert header == Header(Kind.UP, 1, 513, 70_000, 0xABCD, 2)
    for name, body in BODIES.items():
        assert decode_body(type(body), bytes.fromhex(frozen["bodies"][name])) == body
    assert unpack_accusation(bytes.fromhex(frozen["accusation"])) == accusation()
    assert np.frombuffer(bytes.fromhex(frozen["lock"]), np.uint8).shape == (32,)


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(compute(), indent=1) + "\n")
