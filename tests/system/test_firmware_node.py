"""Nodes on real MicroPython, a real gateway, a real edge."""

import json
import os
import select
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from Crypto.PublicKey import RSA

from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.export import export_head
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.log_mel_front import LogMelFront
from headtail_models.mcu.program import Program, Role
from headtail_models.mcu.samples import read_npy
from headtail_models.mcu.twin import Twin
from headtail_models.mcu.update import Release, SigningKey, make_update
from mcu_bundle import LABELS, McuWorld, make_world
from mcu_nodes import (
    RESTARTED,
    GatewayFolder,
    NodeFolder,
    Supervised,
    compile_firmware,
    port_of,
)
from processes import Headtail, wait_until

pytestmark = pytest.mark.system

ZMTP = 'kind = "zmtp"\nbind = "tcp://127.0.0.1:0"\nsecurity = "{}"'
IN_FLIGHT = 8
FAST = ("--sample-s", "0.02", "--report-s", "0.5")


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_firmware(tmp_path_factory.mktemp("firmware"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> McuWorld:
    return make_world(tmp_path_factory.mktemp("world") / "w")


@pytest.fixture(scope="module")
def edge(world: McuWorld) -> Iterator[str]:
    with Headtail(
        "edge", "serve", "--bind", "tcp://127.0.0.1:0", "--bundle", world.bundle.path
    ) as server:
        yield server.ready()["endpoint"]


@pytest.fixture
def gateway(tmp_path: Path, edge: str, world: McuWorld) -> GatewayFolder:
    folder = tmp_path / "gateway"
    folder.mkdir()
    return GatewayFolder(folder, edge, world)


def expected(world: McuWorld) -> list[tuple[str, str]]:
    """(where, label) of each sample, by the twin and the tail."""
    codecs = world.bundle.codecs("board")
    codec = codecs.new(codecs.ids[0])
    stage = world.bundle.open_stage(world.bundle.tail("board"))
    found = []
    for outcome in Twin(world.program).run(world.samples):
        for output, packed, levels in zip(
            world.program.outputs, outcome.packed, outcome.levels, strict=True
        ):
            if output.role is Role.LOGITS and outcome.exited:
                found.append(("board", LABELS[int(levels.reshape(-1).argmax())]))
            elif output.role is Role.FEATURES and not outcome.exited:
                tensor = codec.decode(packed, (1, *world.bundle.cut("board").tensor.shape))
                logits = stage.run({"features": tensor})["logits"]
                found.append(("edge", LABELS[int(np.argmax(logits))]))
    return found


def check_answers(gateway: GatewayFolder, node: NodeFolder, world: McuWorld) -> None:
    """The first round of samples got the answers that arithmetic says."""
    wanted = expected(world)
    wait_until(
        lambda: len(gateway.lines("answer", node.name)) >= len(wanted), f"answers of {node.name}"
    )
    lines = sorted(gateway.lines("answer", node.name), key=lambda line: line["sequence"])
    assert [(line["where"], line["label"]) for line in lines][: len(wanted)] == wanted
    assert {where for where, _ in wanted} == {"board", "edge"}


@pytest.mark.parametrize("security", ["curve", "plain", "none"])
def test_over_zmtp(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path, security: str
) -> None:
    gateway.write(ZMTP.format(security))
    node = NodeFolder(
        "door-1",
        tmp_path,
        world,
        gateway.nodes,
        *("--security", security, "--gateway-key", gateway.public, "--always-on", *FAST),
    )
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware) as process:
            check_answers(gateway, node, world)
            wait_until(lambda: " edge" in process.console(), "an answer of the edge at the node")
    telemetry = gateway.lines("telemetry")[0]
    assert telemetry["wake"] == "power-on"
    assert telemetry["heap_least"] > 20_000
    assert telemetry["lost"] == 0


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_sealed(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path, kind: str
) -> None:
    gateway.write(f'kind = "{kind}"\nhost = "127.0.0.1"\nport = 0')
    node = NodeFolder("field-7", tmp_path, world, gateway.nodes, "--link", kind, *FAST)
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware):
            check_answers(gateway, node, world)


def test_over_tls(gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path) -> None:
    write_certificate(gateway.path)
    gateway.write(
        'kind = "tcp"\nhost = "127.0.0.1"\nport = 0\n'
        'tls_certificate = "tls.pem"\ntls_key = "tls.key"'
    )
    node = NodeFolder(
        "field-7", tmp_path, world, gateway.nodes, "--link", "tcp", "--tls-ca", "ca.der", *FAST
    )
    node.set("link.host", "localhost")
    (node.path / "ca.der").write_bytes((gateway.path / "tls.der").read_bytes())
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware):
            check_answers(gateway, node, world)


@pytest.mark.parametrize("security", ["psk", "none"])
def test_over_a_serial_line(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path, security: str
) -> None:
    node = NodeFolder(
        "bench-3",
        tmp_path,
        world,
        gateway.nodes,
        *("--link", "serial", "--security", security, *FAST),
    )
    with serial_line() as (near, far):
        named = 'node = "bench-3"' if security == "none" else ""
        gateway.write(f'kind = "serial"\ndevice = "{near}"\n{named}')
        node.set("link.device", far)
        with gateway.start() as running, Supervised(node, firmware):
            running.ready()
            check_answers(gateway, node, world)


def test_a_gateway_that_is_killed_loses_nothing(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    gateway.write(ZMTP.format("curve"))
    options = ("--gateway-key", gateway.public, "--always-on", *FAST)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    with gateway.start() as running:
        endpoint = running.ready()["links"][0]
        node.set("link.port", port_of(endpoint))
        node.set("duty.retry_s", 0.2)
        with Supervised(node, firmware):
            wait_until(lambda: len(gateway.lines("answer")) >= 10, "answers")
            running.kill()
            before = len(gateway.lines())
            gateway.write(ZMTP.format("curve").replace("127.0.0.1:0", endpoint[6:]))
            with gateway.start() as again:
                again.ready()
                wait_until(lambda: len(gateway.lines()) >= before + 30, "lines after the restart")
    check_gapless(gateway, node)


def test_an_edge_that_is_away_is_waited_for(
    tmp_path: Path, firmware: Path, world: McuWorld
) -> None:
    words = ("edge", "serve", "--bundle", world.bundle.path, "--bind")
    with Headtail(*words, "tcp://127.0.0.1:0") as first:
        endpoint = first.ready()["endpoint"]
    (tmp_path / "gateway").mkdir()
    gateway = GatewayFolder(tmp_path / "gateway", endpoint, world)
    gateway.write(ZMTP.format("plain"))
    options = ("--security", "plain", "--always-on", *FAST)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware):
            wait_until(lambda: bool(gateway.lines("telemetry")), "a first report")
            with Headtail(*words, endpoint) as second:
                second.ready()
                check_answers(gateway, node, world)


def test_another_nodes_name_can_not_be_taken(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    gateway.write(ZMTP.format("curve"))
    options = ("--gateway-key", gateway.public, "--always-on", *FAST)
    victim = NodeFolder("victim", tmp_path, world, gateway.nodes, *options)
    thief = NodeFolder("thief", tmp_path, world, gateway.nodes, *options)
    stranger = NodeFolder("stranger", tmp_path, world, tmp_path / "others.toml", *options)
    thief.set("name", "victim")
    with gateway.start() as running:
        port = port_of(running.ready()["links"][0])
        for node in (victim, thief, stranger):
            node.set("link.port", port)
        with Supervised(victim, firmware):
            wait_until(lambda: bool(gateway.lines("answer")), "the victim's answers")
            with Supervised(thief, firmware) as one, Supervised(stranger, firmware) as other:
                wait_until(
                    lambda: "refused this node: it is not the one" in one.console(), "a refusal"
                )
                wait_until(lambda: "the server refused this node" in other.console(), "a refusal")
            seen = len(gateway.lines("answer"))
            wait_until(lambda: len(gateway.lines("answer")) > seen + 5, "more of the victim's")
    assert {line["node"] for line in gateway.lines()} == {"victim"}
    assert len({line["log"] for line in gateway.lines()}) == 1


def test_safe_mode_after_three_crashes(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    options = ("--gateway-key", gateway.public)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    node.set("app.options", {"file": "not-there.bin"})
    for _ in range(3):
        status, output = node.run(firmware)
        assert status == RESTARTED
        assert "ENOENT" in output
    status, output = node.run(firmware)
    assert status == RESTARTED
    assert output.startswith("safe mode after 3 crashes, the last: OSError")
    assert "Traceback" not in output
    # One more try; then it is safe again.
    assert "Traceback" in node.run(firmware)[1]
    assert "safe mode" in node.run(firmware)[1]


def test_wrong_settings_are_told_and_lead_to_safe_mode(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    options = ("--gateway-key", gateway.public)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    node.set("duty.sample", 3)
    for _ in range(3):
        assert "config.json: duty.sample is not known; there is" in node.run(firmware)[1]
    assert "safe mode after 3 crashes, the last: ConfigError" in node.run(firmware)[1]


def test_a_node_that_sleeps(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    gateway.write('kind = "udp"\nhost = "127.0.0.1"\nport = 0')
    options = ("--link", "udp", "--sleep", "--sample-s", "0.3", "--report-s", "1.2")
    node = NodeFolder("field-7", tmp_path, world, gateway.nodes, *options)
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware) as process:
            wait_until(lambda: len(gateway.lines("telemetry")) >= 3, "three reports")
    assert [line["wake"] for line in gateway.lines("telemetry")][1:3] == ["deep-sleep"] * 2
    assert "ended 0" in process.console()
    answers = gateway.lines("answer")
    assert len(answers) >= 4
    # Records that were made between two reports know the time that the first of them told.
    first = gateway.lines("telemetry")[0]["time"]
    assert all(abs(line["time"] - first) < 60 for line in answers)
    assert (node.path / "crashes.bin").read_bytes()[:1] == b"\0"


def test_a_head_over_the_air(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    newer = make_world(tmp_path / "newer", threshold=0.5)
    key = SigningKey(RSA.generate(2048))
    release = Release(name="board", version="2.0", number=2)
    update = tmp_path / "board.update"
    update.write_bytes(make_update(newer.program, release, key))
    options = ("--gateway-key", gateway.public, "--trust", "release.key", *FAST)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    (node.path / "release.key").write_bytes(key.modulus)
    gateway.write(ZMTP.format("curve"), update=update)
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware) as process:
            wait_until(
                lambda: any(line["release"] == 2 for line in gateway.lines("telemetry")),
                "the new release",
            )
            wait_until(lambda: slots(node).get("floor") == 2, "its confirmation")
            assert f"ended {RESTARTED}" in process.console()
    assert "update 2 taken" in [line["text"] for line in gateway.lines("note")]
    assert slots(node)["tries"] is None


def test_a_forged_head_is_refused_and_told(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    newer = make_world(tmp_path / "newer", threshold=0.5)
    update = tmp_path / "board.update"
    release = Release(name="board", version="2.0", number=2)
    update.write_bytes(make_update(newer.program, release, SigningKey(RSA.generate(2048))))
    options = ("--gateway-key", gateway.public, "--trust", "release.key", *FAST)
    node = NodeFolder("door-1", tmp_path, world, gateway.nodes, *options)
    (node.path / "release.key").write_bytes(SigningKey(RSA.generate(2048)).modulus)
    gateway.write(ZMTP.format("curve"), update=update)
    with gateway.start() as running:
        node.set("link.port", port_of(running.ready()["links"][0]))
        with Supervised(node, firmware):
            wait_until(lambda: bool(gateway.lines("note")), "a note")
            check_answers(gateway, node, world)
    assert "does not know" in gateway.lines("note")[0]["text"]
    assert not slots(node)


def test_fifty_nodes_and_one_edge(
    gateway: GatewayFolder, firmware: Path, world: McuWorld, tmp_path: Path
) -> None:
    gateway.write(ZMTP.format("curve"))
    options = ("--gateway-key", gateway.public, "--sample-s", "0.5", "--report-s", "3")
    fleet = [
        NodeFolder(f"node-{number}", tmp_path, world, gateway.nodes, *options)
        for number in range(50)
    ]
    started = []
    with gateway.start() as running:
        port = port_of(running.ready()["links"][0])
        try:
            for node in fleet:
                node.set("link.port", port)
                started.append(node.start(firmware))
            wait_until(
                lambda: all(len(gateway.lines("answer", node.name)) >= 6 for node in fleet),
                "six answers of each of fifty nodes",
            )
        finally:
            for process in started:
                process.kill()
                process.communicate()
    for node in fleet:
        check_gapless(gateway, node)
    assert {line["lost"] for line in gateway.lines("telemetry")} == {0}


def check_gapless(gateway: GatewayFolder, node: NodeFolder) -> None:
    """Every record is there, but for the last few, some of which may still have waited."""
    sequences = {line["sequence"] for line in gateway.lines(node=node.name)}
    assert set(range(1, max(sequences) - IN_FLIGHT)) <= sequences


@pytest.mark.parametrize("link", ["zmtp", "udp"])
def test_a_real_head(firmware: Path, tmp_path: Path, link: str) -> None:
    """The released bundle: front end and exit on the board, tail at an edge of its own."""
    bundle = open_bundle(zoo.build("spoken-digits", tmp_path / "bundle"))
    cut = read_cut(bundle, bundle.manifest.default_cut, bits=4)
    program = export_head(
        cut.graph,
        read_npy(bundle.path / SAMPLES, cut.graph.input_shape),
        bits=4,
        exit=cut.exit,
        ranges=cut.ranges,
        preparation=cut.preparation,
    ).program
    world = McuWorld(
        program=program, bundle=bundle, samples=np.zeros((0, 1), np.float32), folder=tmp_path
    )
    world.head.write_bytes(program.blob)
    front = read_front(program.front)
    assert isinstance(front, LogMelFront)
    sound = mixed_tones(seconds=20, rate=8000)
    words = ("edge", "serve", "--bind", "tcp://127.0.0.1:0", "--bundle", bundle.path)
    (tmp_path / "gateway").mkdir()
    with Headtail(*words) as server:
        gateway = GatewayFolder(tmp_path / "gateway", server.ready()["endpoint"], world)
        udp = 'kind = "udp"\nhost = "127.0.0.1"\nport = 0'
        gateway.write(udp if link == "udp" else ZMTP.format("curve"))
        options = ("--link", link, "--gateway-key", gateway.public, "--sample-s", "0.1")
        node = NodeFolder("ear", tmp_path, world, gateway.nodes, *options)
        (node.path / "samples.bin").write_bytes(sound.tobytes())
        with gateway.start() as running:
            node.set("link.port", port_of(running.ready()["links"][0]))
            node.set("duty.report_s", 1.0)
            with Supervised(node, firmware):
                wanted = heard(front, program, bundle, sound)
                wait_until(
                    lambda: len(gateway.lines("answer")) >= len(wanted), "answers about the sound"
                )
    lines = sorted(gateway.lines("answer"), key=lambda line: line["sequence"])
    assert [(line["where"], line["label"]) for line in lines][: len(wanted)] == wanted
    assert min(line["heap_least"] for line in gateway.lines("telemetry")) > 8_000


def mixed_tones(*, seconds: int, rate: int) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
    """Tones and noise that change twice a second."""
    draw = np.random.default_rng(5)
    pieces = []
    for _ in range(2 * seconds):
        t = np.arange(rate // 2) / rate
        tones = sum(np.sin(2 * np.pi * f * t) for f in draw.uniform(100, 3000, 3))
        noise = draw.normal(size=t.size) * draw.uniform(0, 1)
        pieces.append((tones + noise) * draw.uniform(50, 6000))
    return np.concatenate(pieces).astype("<i2")


def heard(
    front: LogMelFront,
    program: Program,
    bundle: Bundle,
    sound: "np.ndarray[tuple[int], np.dtype[np.int16]]",
) -> list[tuple[str, str]]:
    """What the arithmetic says of each patch that `replay` reads, in pieces of 512 bytes."""
    pieces = -(-2 * front.patch_samples // 512)
    each = pieces * 256
    twin, found = Twin(program), []
    codecs = bundle.codecs(bundle.manifest.default_cut)
    stage = bundle.open_stage(bundle.tail(bundle.manifest.default_cut))
    for begin in range(0, sound.size - each + 1, each):
        rows = (each - front.window.size) // front.hop + 1
        late = begin + (rows - front.patch) * front.hop
        outcome = twin.run_levels(front.patch_of(sound[late : late + front.patch_samples]))
        by_role = {o.role: i for i, o in enumerate(program.outputs)}
        if outcome.exited:
            levels = outcome.levels[by_role[Role.LOGITS]]
            found.append(("board", bundle.manifest.labels[int(levels.reshape(-1).argmax())]))
            continue
        cut = bundle.cut(bundle.manifest.default_cut)
        tensor = codecs.new("q4-nhwc").decode(
            outcome.packed[by_role[Role.FEATURES]], (1, *cut.tensor.shape)
        )
        logits = stage.run({cut.tensor.name: tensor})["logits"]
        found.append(("edge", bundle.manifest.labels[int(np.argmax(logits))]))
    return found


def slots(node: NodeFolder) -> dict[str, int]:
    path = node.path / "heads" / "slots.json"
    found: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return found


@contextmanager
def serial_line() -> Iterator[tuple[str, str]]:
    """Two terminals that are joined by a thread."""
    masters, slaves = zip(*(os.openpty() for _ in range(2)), strict=True)
    for slave in slaves:
        tty.setraw(slave)
    done = threading.Event()

    def copy() -> None:
        while not done.is_set():
            for master in select.select(masters, [], [], 0.1)[0]:
                other = masters[1 - masters.index(master)]
                os.write(other, os.read(master, 1024))

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield os.ttyname(slaves[0]), os.ttyname(slaves[1])
    finally:
        done.set()
        thread.join()
        for file in (*masters, *slaves):
            os.close(file)


def write_certificate(folder: Path) -> None:
    """`tls.pem`, `tls.key` and `tls.der` for localhost."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding
    (folder / "tls.pem").write_bytes(certificate.public_bytes(encoding.PEM))
    (folder / "tls.der").write_bytes(certificate.public_bytes(encoding.DER))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
