"""Real device and edge processes, and between them a relay that ends the connections."""

from collections import Counter
from pathlib import Path

import pytest

from headtail_fabric import keys, wire
from headtail_fabric.allowlist import AllowList
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, records, write_clip
from seeing_relay import SeeingRelay

pytestmark = pytest.mark.system

FRAMES = 40


class Places:
    """Keys, lists and a bundle in one folder; the relay is enrolled at the edge, the device only at
    the relay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bundle = write_specimen(folder / "specimen")
        self.clip = write_clip(folder / "clip.mp4", frames=FRAMES)
        for name in ("edge-1", "relay-1", "cam-1"):
            self.run("keys", "new", name, "--dir", folder)
        self.run("keys", "seal", "edge-1", "--dir", folder)
        self.run("keys", "seal", "edge-2", "--dir", folder)
        self.run("keys", "enrol", folder / "relay-1.pub", "--allow", folder / "edge.toml")
        self.run("keys", "enrol", folder / "cam-1.pub", "--allow", folder / "relay.toml")

    def run(self, *words: str | Path) -> None:
        with Headtail(*words) as process:
            assert process.process.wait(PATIENCE_S) == 0, process.errors()

    def edge(self) -> Headtail:
        config = self.folder / "config.toml"
        config.write_text('[seal]\nkey = "edge-1.seal"\nrequired = true\npad_bytes = 256\n')
        secured = ("--key", self.folder / "edge-1.key", "--allow", self.folder / "edge.toml")
        words = ("--bind", "tcp://127.0.0.1:0", "--bundle", self.bundle, "--config", config)
        return Headtail("edge", "serve", *words, *secured)

    def relay(self, edge: str) -> SeeingRelay:
        return SeeingRelay(
            edge,
            keys=keys.load(self.folder / "relay-1.key"),
            edge_key=keys.load_public(self.folder / "edge-1.pub").public,
            allow_list=AllowList(self.folder / "relay.toml"),
        )

    def device(self, relay: str, out: Path, *more: str | Path) -> Counter[str]:
        words = ("--bundle", self.bundle, "--source", self.clip, "--edge", relay, "--json", out)
        secured = ("--key", self.folder / "cam-1.key", "--server-key", self.folder / "relay-1.pub")
        with Headtail("device", "run", *words, *secured, *more) as device:
            assert device.process.wait(PATIENCE_S) == 0, device.errors()
        ended = records(out)
        assert sorted(record["frame"] for record in ended) == list(range(FRAMES))
        return Counter(record["outcome"] for record in ended)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("sealed"))


def requests(relay: SeeingRelay) -> list[wire.Request]:
    messages = [wire.decode(frames)[0] for frames in relay.seen]
    return [message for message in messages if isinstance(message, wire.Request)]


def test_a_relay_carries_what_it_can_not_read(places: Places, tmp_path: Path) -> None:
    with places.edge() as edge, places.relay(edge.ready()["endpoint"]) as relay:
        out = tmp_path / "frames.jsonl"
        seal = ("--seal-to", places.folder / "edge-1.seal.pub")
        assert places.device(relay.endpoint, out, *seal) == {"edge": FRAMES}
        carried = requests(relay)
        assert len(carried) == FRAMES
        assert {tensor.codec for one in carried for tensor in one.tensors} == {"sealed"}


def test_a_relay_that_changes_payloads_costs_those_frames_alone(
    places: Places, tmp_path: Path
) -> None:
    with places.edge() as edge, places.relay(edge.ready()["endpoint"]) as relay:
        changed: list[int] = []

        def change(frames: list[bytes]) -> list[bytes]:
            message = wire.decode(frames)[0]
            if isinstance(message, wire.Request) and message.id % 4 == 0:
                changed.append(message.id)
                return [frames[0], frames[1][:-1] + bytes([frames[1][-1] ^ 1])]
            return frames

        relay.change = change
        out = tmp_path / "frames.jsonl"
        seal = ("--seal-to", places.folder / "edge-1.seal.pub")
        ended = places.device(relay.endpoint, out, *seal)
        assert ended == {"edge": FRAMES - len(changed), "degraded": len(changed)}
        assert len(changed) == FRAMES // 4


@pytest.mark.parametrize("seal", [(), ("--seal-to", "edge-2.seal.pub")])
def test_what_is_not_sealed_to_this_edge_is_answered_by_the_device(
    places: Places, tmp_path: Path, seal: tuple[str, ...]
) -> None:
    words = [places.folder / word if word.endswith(".pub") else word for word in seal]
    with places.edge() as edge, places.relay(edge.ready()["endpoint"]) as relay:
        out = tmp_path / "frames.jsonl"
        assert places.device(relay.endpoint, out, *words) == {"degraded": FRAMES}
