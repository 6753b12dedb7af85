"""Parsers of `headtail_prifi`: frames of rounds, of the set-up, of blame, and what cells hold."""

import functools
from collections.abc import Sequence

from fuzzing.target import Parser, Target
from headtail_prifi.app.fragments import Assembler, cut, cut_again
from headtail_prifi.app.wire import read_part
from headtail_prifi.blame import messages as blame
from headtail_prifi.blame.accusation import unpack_accusation
from headtail_prifi.blame.evidence import MAGIC, verify_evidence
from headtail_prifi.core import messages as core
from headtail_prifi.core.body import Body, decode_body, split_signed
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import read_header
from headtail_prifi.core.membership import Certificate, unpack_clients
from headtail_prifi.core.seat import Role, client_seat
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.schedule import decode_owners, reserved_slots
from headtail_prifi.setup.messages import (
    Abort,
    Endorsement,
    Message,
    Outcome,
    Reason,
    ShuffleProof,
    pack,
    unpack,
)
from headtail_prifi.swarm import Scene, Swarm, set_scene

_GEOMETRY = Geometry(clients=3, cell_bytes=128, window=2)
_BODIES: tuple[type[Body], ...] = (
    *(core.Report, core.Disclosure, core.Retirement, core.Down, core.Nack, core.Grant),
    *(core.Propose, core.Endorse, core.Leave, Certificate),
    *(blame.Vouch, blame.Vouched, blame.Claim, blame.Case, blame.Reveal, blame.Conflict),
    *(blame.Opening, blame.Call, blame.Submit, blame.Mix, blame.Mixed, blame.Unmask),
    *(blame.Shares, blame.Proclaim),
)


@functools.cache
def _scene() -> Scene:
    return set_scene(3, 2, _GEOMETRY)


@functools.cache
def _swarm() -> Swarm:
    """A relay, three clients and two guards after a few rounds."""
    swarm = Swarm(_scene())
    swarm.sightings = []
    swarm.start()
    swarm.send(0, b"hello")
    swarm.run_rounds(4)
    swarm.leave(1)
    swarm.run_rounds(4)
    return swarm


def _body(kind: type[Body]) -> Parser:
    return lambda data: decode_body(kind, data[12:])


def to_relay(data: bytes) -> None:
    _swarm().relay.receive(data, _swarm().now, client_seat(0))


def to_client(data: bytes) -> None:
    _swarm().clients[0].receive(data, _swarm().now)


def to_guard(data: bytes) -> None:
    _swarm().guards[0].receive(data, _swarm().now)


@functools.cache
def frame_corpus() -> Sequence[bytes]:
    """Some frames of each kind that were sent."""
    by_kind: dict[int, list[bytes]] = {}
    for sighting in _swarm().sightings or []:
        kept = by_kind.setdefault(sighting.frame[0], [])
        if len(kept) < 6:
            kept.append(sighting.frame)
    return [frame for frames in by_kind.values() for frame in frames]


def setup_corpus() -> list[bytes]:
    key, digest, point = SigningKey(bytes(range(32))), bytes(32), bytes(33)
    sent: tuple[Message, ...] = (
        ShuffleProof(epoch_id=digest, guard=2, proof=b"proof"),
        Endorsement(epoch_id=digest, guard=1, outcome_hash=digest),
        Outcome(epoch_id=digest, client_keys=point * 2, base=point, slots=point * 2),
        Abort(
            epoch_id=digest,
            role=Role.CLIENT,
            index=4,
            reason=Reason.KEYS,
            accused_role=Role.GUARD,
            accused_index=1,
        ),
    )
    return [pack(message, key).frame for message in sent]


def run_evidence(data: bytes) -> None:
    verify_evidence(data, _scene().finished.epoch)


_SMALL: tuple[Parser, ...] = (
    unpack_accusation,
    lambda data: unpack_clients(data, 20),
    lambda data: Geometry.decode(data, clients=3),
    run_evidence,
    lambda data: reserved_slots(data, 3),
    lambda data: decode_owners(data + data),
    read_part,
    lambda data: Assembler().add(data),
    lambda data: list(cut_again(data, 100)),
)


def small_corpus() -> list[bytes]:
    return [
        *cut(bytes(range(256)) * 2, 5, 100),
        _GEOMETRY.encode(),
        MAGIC + bytes(60),
        bytes(48),
    ]


TARGETS = (
    Target(
        name="prifi-frames",
        what="headers and bodies of a DC-net",
        parsers=(read_header, split_signed, *map(_body, _BODIES)),
        corpus=frame_corpus,
    ),
    Target(
        name="prifi-parties",
        what="a DC-net's relay, client and guard",
        parsers=(to_relay, to_client, to_guard),
        corpus=frame_corpus,
    ),
    Target(name="prifi-setup", what="frames of the set-up", parsers=(unpack,), corpus=setup_corpus),
    Target(name="prifi-small", what="cells and evidence", parsers=_SMALL, corpus=small_corpus),
)
