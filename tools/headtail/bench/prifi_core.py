"""The DC-net's own work, without sockets: pads, shuffle, set-up, rounds and blame.

All figures are CPU time of one process, the best of several turns, with every protection on. The
rounds are those of the real cores of relay, clients and guards, joined by lists: what a network
adds (about 9 us to receive a message and 7 us to send one through ZeroMQ) is not in them.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from Crypto.Cipher import AES
from rich.progress import Progress

from headtail.bench.report import Cell, Report
from headtail_fabric.errors import ConfigError
from headtail_prifi.core.events import VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.seat import ALL, RELAY, Role, Seat, client_seat
from headtail_prifi.crypto.cipher import (
    BLOCK_BYTES,
    PAD_KEY_BYTES,
    PadCipher,
    PadStream,
    cipher_named,
    default_cipher,
)
from headtail_prifi.crypto.entropy import SeededEntropy, SystemEntropy
from headtail_prifi.crypto.group import Group, default_group, group_named
from headtail_prifi.crypto.permutation import generators
from headtail_prifi.crypto.shuffle import proof_bytes, prove, shuffle, verify
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.pads import batch_rounds, combined
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.memory import SetupSwarm, enrol
from headtail_prifi.swarm import Scene, Swarm, set_scene

_GUARDS: Final = 3
_CELLS: Final = {"128": 128, "1k": 1024, "4k": 4096, "16k": 16 * 1024}
_KEYS: Final = (10, 50, 100, 500)
_CLIENTS: Final = (10, 50, 100)
_SPEAKERS: Final = 5
_TURN_ROUNDS: Final = 128  # every turn has all that is rare: two vouchers, a check of the relay's
_BLAME_LIMIT_S: Final = 600.0
_PAD_BYTES: Final = 16 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=5, help="turns of each figure (default 5)")
    parser.add_argument(
        "--clients", type=int, default=100, choices=_CLIENTS, help="at most so many"
    )


def run(options: argparse.Namespace) -> Report:
    turns = max(1, options.turns)
    scene = set_scene(10, _GUARDS, Geometry(clients=10))
    report = Report(
        "prifi-core",
        {
            "turns": turns,
            "time": "CPU of one process, best turn",
            "group": default_group().name,
            "cipher": default_cipher().name,
            "guards": _GUARDS,
            "sockets": "none",
            "protections": str(Swarm(scene).protections).removeprefix("protections: "),
        },
    )
    counts = [count for count in _CLIENTS if count <= options.clients]
    gc.collect()
    gc.freeze()
    with Progress(transient=True) as progress:
        task = progress.add_task("prifi-core", total=5)
        for part in (_pads, _shuffles, _setups, _rounds, _blame):
            part(report, turns, counts)
            progress.advance(task)
    gc.unfreeze()
    return report


# -- pads ------------------------------------------------------------------------------------------


def _pads(report: Report, turns: int, counts: Sequence[int]) -> None:
    rows: list[list[Cell]] = []
    for name in _available(cipher_named, ("cryptography", "pycryptodome")):
        cipher = cipher_named(name)
        for label, size in _CELLS.items():
            geometry = Geometry(clients=100, cell_bytes=size)
            ours, bare = _pad_rates(cipher, geometry, turns)
            report.figure(f"pad_mbytes_per_s_{label}_{name}", ours)
            rows.append([f"{label} {name}", ours, bare, ours / bare])
            if label == "1k" and name == default_cipher().name:
                report.figure("bare_mbytes_per_s", bare)
                report.target("pad_ratio", ours / bare, ">=", 0.7)
    report.table(
        "Pads of 3 guards, in batches of about 64 KiB",
        ["cell, backend", "MB/s", "bare cipher MB/s", "ratio"],
        rows,
    )


def _pad_rates(cipher: PadCipher, geometry: Geometry, turns: int) -> tuple[float, float]:
    """Megabytes of keystream a second: as the rounds make it, and by the library's own call."""
    streams = [cipher.stream(bytes([guard]) * PAD_KEY_BYTES) for guard in range(_GUARDS)]
    count = batch_rounds(geometry)
    made = _GUARDS * count * geometry.stream_bytes
    buffer = bytearray(64 * 1024)
    bare = _bare_cipher(cipher.name)
    calls, bare_calls = _PAD_BYTES // made, _PAD_BYTES // len(buffer)

    def ours() -> None:
        for call in range(calls):
            combined(streams, geometry, call * count, count)

    def theirs() -> None:
        for _ in range(bare_calls):
            bare(buffer)

    rate = calls * made / _best(ours, turns) / 1e6
    return rate, bare_calls * len(buffer) / _best(theirs, turns) / 1e6


def _bare_cipher(name: str) -> Callable[[bytearray], object]:
    key = bytes(PAD_KEY_BYTES)
    if name == "cryptography":
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        openssl = Cipher(algorithms.AES(key), modes.CTR(bytes(BLOCK_BYTES))).encryptor()
        return lambda buffer: openssl.update_into(buffer, buffer)
    plain = AES.new(key, AES.MODE_CTR, nonce=b"")
    return lambda buffer: plain.encrypt(buffer, output=buffer)


# -- shuffle ---------------------------------------------------------------------------------------


def _shuffles(report: Report, turns: int, counts: Sequence[int]) -> None:
    rows: list[list[Cell]] = []
    for name in _available(group_named, ("secp256k1", "p256")):
        for count in _KEYS:
            few = max(1, turns * 10 // count) if name == "p256" else turns
            times = _shuffle_times(group_named(name), count, few)
            for step, seconds in zip(("shuffle", "prove", "verify"), times, strict=True):
                report.figure(f"{step}_ms_{count}_{name}", seconds * 1e3)
            rows.append(
                [f"{count} {name}", *(seconds * 1e3 for seconds in times), proof_bytes(count)]
            )
    report.table(
        "Verifiable key shuffle, CPU ms", ["keys", "shuffle", "prove", "verify", "bytes"], rows
    )


def _shuffle_times(group: Group, count: int, turns: int) -> tuple[float, float, float]:
    entropy, base, context = SystemEntropy(), group.base, b"bench"
    generators(group.name, count)  # the same in all epochs
    keys = [group.mul_base(group.random_scalar(entropy)) for _ in range(count)]
    done = shuffle(group, base, keys, entropy)
    proof = prove(group, base, keys, done, context=context, entropy=entropy)
    return (
        _best(lambda: shuffle(group, base, keys, entropy), turns),
        _best(lambda: prove(group, base, keys, done, context=context, entropy=entropy), turns),
        _best(
            lambda: verify(group, base, keys, done.base, done.keys, proof, context=context), turns
        ),
    )


# -- set-up ----------------------------------------------------------------------------------------


def _setups(report: Report, turns: int, counts: Sequence[int]) -> None:
    rows: list[list[Cell]] = []
    group = default_group().name
    for count in counts:
        entropy = SystemEntropy()
        enrolment = enrol(count, _GUARDS, entropy, group=group)
        path_ms = total_ms = float("inf")
        for _ in range(turns):
            swarm = SetupSwarm(enrolment, entropy, cost=time.process_time)
            started_at = time.process_time()
            swarm.run()
            total_ms = min(total_ms, (time.process_time() - started_at) * 1e3)
            swarm.finished()
            path_ms = min(path_ms, swarm.now * 1e3)
        rows.append([count, path_ms, total_ms])
        if count == max(_CLIENTS):
            report.target("setup_cpu_ms_n100", path_ms, "<=", 150)
        else:
            report.figure(f"setup_cpu_ms_n{count}", path_ms)
    report.table(
        "Set-up with 3 guards, CPU ms: the critical path (each party a processor of its own, "
        "links without delay) and all parties together",
        ["clients", "critical path", "total"],
        rows,
    )


# -- rounds ----------------------------------------------------------------------------------------


def _rounds(report: Report, turns: int, counts: Sequence[int]) -> None:
    rows: list[list[Cell]] = []
    for count in counts:
        scene = set_scene(count, _GUARDS, Geometry(clients=count))
        for label, size in _CELLS.items():
            # The same keys for cells of another size: a set-up for each would only take time.
            geometry = Geometry(clients=count, cell_bytes=size)
            epoch = replace(scene.finished.epoch, parameters=geometry.encode())
            sized = scene._replace(finished=scene.finished._replace(epoch=epoch))
            relay, client, guard = _Line(sized).measure(turns)
            rows.append([f"{count}, {label}", relay, client, guard, count * (relay + client)])
            suffix = f"{label}_n{count}"
            if suffix == "1k_n100":
                report.target(f"relay_us_per_client_{suffix}", relay, "<=", 27)
                report.target("client_us_1k_m3", client, "<=", 46)
            else:
                report.figure(f"relay_us_per_client_{suffix}", relay)
                report.figure(f"client_us_{suffix}", client)
            report.figure(f"guard_us_per_client_{suffix}", guard)
    report.table(
        "Rounds with 3 guards, 5 clients speaking: CPU us per client and round",
        ["clients, cell", "relay", "client", "guard", "relay + all clients, per round"],
        rows,
    )


class _Line:
    """The cores of one epoch, served role by role so that each role's time can be told."""

    def __init__(self, scene: Scene) -> None:
        swarm = Swarm(scene, entropy=lambda seat: SystemEntropy())
        self._relay, self._clients, self._guards = swarm.relay, swarm.clients, swarm.guards
        self._spent = dict.fromkeys(Role, 0.0)
        """CPU seconds of all parties of a role in this turn."""
        self._body = b"x" * self._clients[0].body_bytes
        self._now = 0.0

    def measure(self, turns: int) -> tuple[float, float, float]:
        """Microseconds per client and round of the relay, a client and a guard: best turn each."""
        self._relay.start(self._now)
        self._run(_TURN_ROUNDS)
        best = dict.fromkeys(Role, float("inf"))
        for _ in range(turns):
            self._spent = dict.fromkeys(Role, 0.0)
            self._run(_TURN_ROUNDS)
            best = {role: min(best[role], spent) for role, spent in self._spent.items()}
        scale = 1e6 / _TURN_ROUNDS / len(self._clients)
        guard = best[Role.GUARD] / len(self._guards)
        return best[Role.RELAY] * scale, best[Role.CLIENT] * scale, guard * scale

    def _run(self, rounds: int) -> None:
        goal = self._relay.next_round + rounds
        while self._relay.next_round < goal:
            self._feed()
            self._now += 0.05  # longer than the longest idle pause
            self._serve_relay([])

    def _feed(self) -> None:
        for client in self._clients[:_SPEAKERS]:
            while client.waiting < 2:
                client.send(self._body)

    def _serve_relay(self, arrived: list[tuple[Seat, bytes]]) -> None:
        """The relay takes what arrived, then everybody else takes what it sends."""
        while True:
            started_at = time.process_time()
            for source, frame in arrived:
                self._relay.receive(frame, self._now, source)
            timer = self._relay.next_timer()
            if timer is not None and timer <= self._now:
                self._relay.on_timer(self._now)
            outgoing = self._relay.to_send(self._now)
            while self._relay.next_event() is not None:
                pass
            self._spent[Role.RELAY] += time.process_time() - started_at
            if not outgoing:
                return
            arrived = [reply for to, frame in outgoing for reply in self._deliver(to, frame)]

    def _deliver(self, to: Seat, frame: bytes) -> list[tuple[Seat, bytes]]:
        cores = self._clients if to.role is Role.CLIENT else self._guards
        chosen = range(len(cores)) if to.index == ALL else (to.index,)
        sent: list[list[Outgoing]] = []
        started_at = time.process_time()
        for index in chosen:
            core = cores[index]
            core.receive(frame, self._now)
            sent.append(core.to_send(self._now))
            while core.next_event() is not None:
                pass
        self._spent[to.role] += time.process_time() - started_at
        return [
            (Seat(to.role, index), out.frame)
            for index, frames in zip(chosen, sent, strict=True)
            for out in frames
        ]


# -- blame -----------------------------------------------------------------------------------------


class _Disrupting:
    """A cipher that spoils the pads of every n-th round: what a client that jams sends with."""

    name: Final = "disrupting"

    def __init__(self, cipher: PadCipher, geometry: Geometry, every: int) -> None:
        self._geometry = geometry
        self._every = every
        self._cipher = cipher
        self.seal = cipher.seal
        self.open = cipher.open

    def stream(self, key: bytes) -> PadStream:
        return _DisruptingStream(self._cipher.stream(key), self._geometry, self._every)


class _DisruptingStream:
    def __init__(self, stream: PadStream, geometry: Geometry, every: int) -> None:
        self._stride_blocks = geometry.stride_blocks
        self._every = every
        self._stream = stream
        self.keystream = stream.keystream

    def xor_into(self, buffer: bytearray | memoryview, block: int) -> None:
        self._stream.xor_into(buffer, block)
        stride_bytes = self._stride_blocks * BLOCK_BYTES
        first_round = block // self._stride_blocks
        for offset in range(len(buffer) // stride_bytes):
            if (first_round + offset) % self._every == 0:
                buffer[offset * stride_bytes] ^= 0xFF


def _blame(report: Report, turns: int, counts: Sequence[int]) -> None:
    count = max(counts)
    geometry = Geometry(clients=count)
    scene = set_scene(count, _GUARDS, geometry)
    rows: list[list[Cell]] = []
    for label, every in (("one round in four", 4), ("every round", 1)):
        found = [_find_disruptor(scene, geometry, every, turn) for turn in range(turns)]
        rounds, cpu_ms = sorted(one[0] for one in found)[turns // 2], min(one[1] for one in found)
        suffix = f"n{count}" if every > 1 else f"jammed_n{count}"
        report.figure(f"blame_rounds_{suffix}", rounds)
        report.figure(f"blame_cpu_ms_{suffix}", cpu_ms)
        rows.append([label, rounds, cpu_ms])
    report.table(
        f"Blame of one disruptor among {count} clients, from round 0 to the verdict (who spoils "
        "every round forces an accusation shuffle)",
        ["it spoils", "rounds, median", "CPU ms of all parties, best"],
        rows,
    )


def _find_disruptor(scene: Scene, geometry: Geometry, every: int, turn: int) -> tuple[int, float]:
    """Rounds and CPU ms until the verdict; RuntimeError if it is wrong or does not come."""
    swarm = Swarm(scene, seed=b"blame %d" % turn)
    epoch, culprit = scene.finished.epoch, geometry.clients - 1
    swarm.clients[culprit] = ClientCore(
        epoch=epoch,
        secrets=scene.finished.clients[culprit],
        signing_key=scene.enrolment.clients[epoch.members[culprit]],
        cipher=_Disrupting(default_cipher(), geometry, every),
        entropy=SeededEntropy(b"disruptor %d" % turn),
    )
    swarm.start()
    for _ in range(4 * every):
        swarm.send(0, b"a message that somebody spoils")

    def decided() -> bool:
        return bool(swarm.events(VerdictReached, RELAY))

    started_at = time.process_time()
    if not swarm.run(decided, swarm.now + _BLAME_LIMIT_S):
        raise RuntimeError("the disruptor was not found")
    cpu_ms = (time.process_time() - started_at) * 1e3
    verdict = swarm.events(VerdictReached, RELAY)[0]
    if not isinstance(verdict, VerdictReached) or verdict.culprit != client_seat(culprit):
        raise RuntimeError(f"the wrong party was blamed: {verdict}")
    return swarm.relay.next_round, cpu_ms


def _best(action: Callable[[], object], turns: int) -> float:
    """CPU seconds of the fastest of several calls."""
    best = float("inf")
    for _ in range(turns):
        started_at = time.process_time()
        action()
        best = min(best, time.process_time() - started_at)
    return best


def _available(named: Callable[[str], object], names: Sequence[str]) -> Iterator[str]:
    """The names whose backend is installed."""
    for name in names:
        with suppress(ConfigError):
            named(name)
            yield name
