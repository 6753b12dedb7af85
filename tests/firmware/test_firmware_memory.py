"""What boards have left for a head: whole nodes on an emulated Cortex-M3, in as small a heap.

`make firmware-qemu` makes the emulated board. Modules are .mpy files that are loaded into the heap,
machine code included, as on a board that has the firmware in its file system.
"""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from emulated_node import PORTS, EmulatedNode, Gateway, Packets, Peer, Router
from headtail.boards.checkout import compiled
from headtail.boards.emulated import BoardError, find_firmware
from headtail_edge.gateway import messages
from headtail_fabric import keys
from headtail_models.bundle import open_bundle
from headtail_models.mcu.boards import BOARDS, RESERVED_BYTES, LinkKind
from headtail_models.mcu.costs import budget
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.program import Program
from headtail_models.training.board_release import exported
from headtail_models.zoo import build
from mcu_nodes import new_node

BOARD = find_firmware()
pytestmark = [
    pytest.mark.system,
    pytest.mark.long,
    pytest.mark.skipif(
        BOARD is None,
        reason="NOT TESTED ON A CORTEX-M3: `make firmware-qemu` makes an emulated one",
    ),
]
SETTLED = 12
_WORDS = {
    LinkKind.SERIAL: ("--link", "serial", "--security", "none"),
    LinkKind.SEALED: ("--link", "tcp"),
    LinkKind.ZMTP: ("--link", "zmtp", "--security", "none"),
    LinkKind.CURVE: ("--link", "zmtp"),
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return compiled("armv7m", tmp_path_factory.mktemp("armv7m"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    bundle = open_bundle(build("spoken-digits", tmp_path_factory.mktemp("digits") / "bundle"))
    return exported(read_cut(bundle, "code", bits=8), bundle.path / SAMPLES)


@pytest.fixture(autouse=True)
def cipher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated board has none, so its node and the gateway here have one of zeros."""
    module = ModuleType("cryptolib")
    exec(PORTS["cryptolib"], vars(module))
    monkeypatch.setitem(sys.modules, "cryptolib", module)


def files_of(folder: Path, link: LinkKind, program: Program) -> tuple[dict[str, bytes], Peer]:
    """A node's own files, made by `headtail node new`, and the gateway's end of its link."""
    pair = keys.generate("gateway")
    keys.save(pair, folder)
    words = [*_WORDS[link], "--sample-s", "0.2", "--always-on"]
    if link is LinkKind.CURVE:
        words += ["--gateway-key", str(folder / "gateway.pub")]
    new_node("n", folder / "n", folder / "nodes.toml", *words)
    config = json.loads((folder / "n" / "config.json").read_text())
    secrets = json.loads((folder / "n" / "secrets.json").read_text())
    config["app"]["options"] = {"file": "/flash/samples.bin"}
    config["log"] = {"file": "log.bin", "slots": 16, "record_bytes": 512}
    config["duty"]["batch"] = 4
    noise = np.random.default_rng(0).normal(0, 300, 20_000).astype("<i2")
    files = {
        "config.json": json.dumps(config).encode(),
        "secrets.json": json.dumps(secrets).encode(),
        "board.head": program.blob,
        "samples.bin": noise.tobytes(),
    }
    if link in (LinkKind.ZMTP, LinkKind.CURVE):
        return files, Router(pair.secret.encode() if link is LinkKind.CURVE else None)
    if link is LinkKind.SERIAL:
        return files, Packets()
    return files, Packets(bytes.fromhex(secrets["psk"]), secrets["psk_id"])


@pytest.mark.parametrize("link", LinkKind, ids=lambda link: str(link.value))
def test_a_node_lives_in_what_is_reserved(
    link: LinkKind, modules: dict[str, bytes], program: Program, tmp_path: Path
) -> None:
    """Records of 8 bits a value, four in flight, and not one MemoryError; a sixth less is not
    enough, so the reservation is no more than caution."""
    assert BOARD is not None
    front = budget(program, BOARDS["rp2040"]).front
    assert front is not None
    need = program.arena + len(program.blob) + front.ram_bytes
    files, peer = files_of(tmp_path, link, program)
    try:
        with EmulatedNode(BOARD, RESERVED_BYTES[link] + need, modules | files) as node:
            gateway = Gateway(peer)
            assert node.live(gateway, settled=SETTLED) > 0
            sent = [one for one in gateway.heard if isinstance(one, messages.Record)]
            assert len(sent) >= SETTLED
        few = RESERVED_BYTES[link] * 5 // 6 + need
        with (
            pytest.raises(BoardError, match="MemoryError"),
            EmulatedNode(BOARD, few, modules | files) as node,
        ):
            node.live(gateway, settled=SETTLED)
    finally:
        peer.close()
