"""A real edge that has room for few, and a real cloud that it forwards to; the cloud killed in the
middle, and come back."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, send
from headtail_fabric.keys import generate, save
from headtail_fabric.peer.events import Answered, ClientEvent, Connected, Expired, Failed, Refused
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, wait_until

pytest.importorskip("uvicorn", reason="needs the extra `cloud`")
pytestmark = pytest.mark.system

FRAMES = 60


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("forwarding") / "specimen"))


def cloud(bundle: Bundle, *more: str | Path) -> Headtail:
    return Headtail(
        *("cloud", "serve", "--port", "0", "--edges", "tcp://127.0.0.1:0"),
        *("--model", bundle.path, "--runtime", "process", "--workers", "1", *more),
    )


def edge(bundle: Bundle, folder: Path, endpoint: str, *more: str | Path) -> Headtail:
    """With room for one request beside the one that is computed."""
    settings = folder / "edge.toml"
    settings.write_text("queue_limit = 1\nworkers = 1\nwindow = 64\n")
    words = ("--bundle", bundle.path, "--cloud", endpoint, "--config", settings)
    return Headtail("edge", "serve", "--bind", "tcp://127.0.0.1:0", *words, *more)


def ask_all(client: ZmqClient, bundle: Bundle, frames: int) -> dict[int, ClientEvent]:
    """As fast as the window allows; how each ended."""
    ends: dict[int, ClientEvent] = {}
    sent = 0
    until = time.monotonic() + PATIENCE_S
    while len(ends) < frames:
        assert time.monotonic() < until, f"{len(ends)} of {frames} ended"
        while sent < frames and client.free_window():
            send(client, bundle, "late", seed=sent, deadline_s=20.0)
            sent += 1
        event = client.poll(0.05)
        if isinstance(event, Answered | Refused | Failed | Expired):
            assert event.id not in ends, "ended twice"
            ends[event.id] = event
    return ends


def connected(endpoint: str) -> ZmqClient:
    client = ZmqClient(endpoint, name="cam")
    until = time.monotonic() + PATIENCE_S
    while not isinstance(client.poll(0.2), Connected):
        assert time.monotonic() < until
    return client


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_what_the_edge_has_no_room_for_is_answered_by_the_cloud(
    bundle: Bundle, tmp_path: Path, stack: ExitStack
) -> None:
    above = stack.enter_context(cloud(bundle))
    ready = above.ready()
    near = stack.enter_context(edge(bundle, tmp_path, ready["edges"]))
    client = connected(near.ready()["endpoint"])
    stack.callback(client.close)

    def forwarded() -> float:
        text = urllib.request.urlopen(f"{ready['url']}/metrics", timeout=30).read().decode()
        lines = [line for line in text.splitlines() if 'requests_total{outcome="done"}' in line]
        return float(lines[0].split()[-1]) if lines else 0.0

    def some_are_forwarded() -> bool:
        ends = ask_all(client, bundle, FRAMES)
        assert {type(end) for end in ends.values()} == {Answered}, [
            end for end in ends.values() if isinstance(end, Failed)
        ]
        stage = bundle.open_stage(bundle.cut("late").tail)
        for number, end in enumerate(ends[key] for key in sorted(ends)):
            assert isinstance(end, Answered)
            (expected,) = stage.run(
                {stage.inputs[0].name: crossing(bundle, "late", seed=number)}
            ).values()
            got = np.frombuffer(end.payloads[0], np.float32)
            np.testing.assert_allclose(got, expected[0], atol=1e-4)
        return forwarded() > 0

    wait_until(some_are_forwarded, "a forwarded request")
    assert near.terminate() == 0
    assert above.terminate() == 0


def test_a_cloud_that_is_killed_costs_no_request(
    bundle: Bundle, tmp_path: Path, stack: ExitStack
) -> None:
    above = stack.enter_context(cloud(bundle))
    endpoint = above.ready()["edges"]
    near = stack.enter_context(edge(bundle, tmp_path, endpoint))
    client = connected(near.ready()["endpoint"])
    stack.callback(client.close)
    ask_all(client, bundle, FRAMES)
    above.kill()
    ends = ask_all(client, bundle, FRAMES)
    assert {type(end) for end in ends.values()} == {Answered}, [
        end for end in ends.values() if isinstance(end, Failed)
    ]
    again = stack.enter_context(cloud(bundle, "--edges", endpoint))
    again.ready()
    ends = ask_all(client, bundle, FRAMES)
    assert {type(end) for end in ends.values()} == {Answered}, [
        end for end in ends.values() if isinstance(end, Failed)
    ]
    assert near.terminate() == 0
    assert again.terminate() == 0


def test_with_keys_the_cloud_knows_its_edges(
    bundle: Bundle, tmp_path: Path, stack: ExitStack
) -> None:
    keys = {name: generate(name) for name in ("above", "near", "stranger")}
    paths = {name: save(pair, tmp_path) for name, pair in keys.items()}
    members = tmp_path / "allow.toml"
    words = ("keys", "enrol", "--name", "near", "--allow", members)
    with Headtail(*words, tmp_path / "near.pub") as enrolled:
        assert enrolled.process.wait(60) == 0, enrolled.errors()
    settings = tmp_path / "cloud.toml"
    settings.write_text(f'[edges]\nkey = "{paths["above"]}"\nallow_list = "{members}"\n')
    above = stack.enter_context(cloud(bundle, "--config", settings))
    endpoint = above.ready()["edges"]

    def hello(name: str) -> ClientEvent:
        client = ZmqClient(endpoint, name=name, keys=keys[name], server_key=keys["above"].public)
        try:
            while (event := client.poll(PATIENCE_S)) is None:
                pass
            return event
        finally:
            client.close()

    assert isinstance(hello("near"), Connected)
    assert not isinstance(hello("stranger"), Connected)
    assert above.terminate() == 0


def test_a_head_that_has_begun_finds_an_instance_there(
    bundle: Bundle, tmp_path: Path, stack: ExitStack
) -> None:
    settings = tmp_path / "cloud.toml"
    settings.write_text("least_workers = 0\n")
    ready = stack.enter_context(cloud(bundle, "--config", settings)).ready()
    client = connected(ready["edges"])  # names no bundle, so that only the head announces its tail
    stack.callback(client.close)

    def instances() -> float:
        text = urllib.request.urlopen(f"{ready['url']}/metrics", timeout=30).read().decode()
        found = [line for line in text.splitlines() if line.startswith("headtail_cloud_instances ")]
        return float(found[0].split()[-1])

    def announced() -> bool:
        client.announce_tail(bundle=bundle.digest, cut="late", due_s=0.0)
        client.poll(0.1)
        return instances() == 1

    assert instances() == 0
    wait_until(announced, "an instance")
    assert [type(end) for end in ask_all(client, bundle, 1).values()] == [Answered]
