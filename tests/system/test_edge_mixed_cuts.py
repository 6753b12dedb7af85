"""Devices at two cuts of one bundle at a real edge: what lies behind the later cut runs once."""

import time
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, encoded
from headtail_fabric.peer.events import Answered, Connected
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail

pytestmark = pytest.mark.system

_TRIES = 10
"""A machine may be so busy that requests sent together do not wait together."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("bundles") / "specimen"))


def submit(client: ZmqClient, bundle: Bundle, cut: str, seed: int) -> int:
    tensor, payload = encoded(bundle, cut, crossing(bundle, cut, seed=seed), "raw")
    return client.submit(
        bundle=bundle.digest,
        cut=cut,
        tensors=[tensor],
        payloads=[payload],
        deadline_s=PATIENCE_S,
    )


def answers(devices: dict[str, ZmqClient]) -> dict[str, Answered]:
    """One for each device; in turns, for a client sends only while it is polled."""
    found: dict[str, Answered] = {}
    until = time.monotonic() + PATIENCE_S
    while len(found) < len(devices):
        for cut, device in devices.items():
            event = device.poll(0.01)
            assert event is None or isinstance(event, Answered)
            if event is not None:
                found[cut] = event
        assert time.monotonic() < until, f"only {len(found)} answers in time"
    return found


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_two_devices_at_different_cuts_share_a_batch(
    bundle: Bundle, tmp_path: Path, kind: str
) -> None:
    config = tmp_path / "edge.toml"
    config.write_text(
        f'worker_kind = "{kind}"\nworkers = 1\nmax_wait_ms = 300\nmixed_cuts = "always"\n'
    )
    words: list[str | Path] = ["edge", "serve", "--bind", "tcp://127.0.0.1:0", "--config", config]
    with Headtail(*words, "--bundle", bundle.path) as edge:
        endpoint = edge.ready()["endpoint"]
        with ZmqClient(endpoint, name="one") as one, ZmqClient(endpoint, name="two") as two:
            devices = {"early": one, "late": two}
            for device in devices.values():
                assert isinstance(device.poll(PATIENCE_S), Connected)
            for seed in range(_TRIES):
                for cut, device in devices.items():
                    submit(device, bundle, cut, seed)
                found = answers(devices)
                for cut, event in found.items():
                    tail = bundle.open_stage(bundle.tail(cut))
                    alone = tail.run({cut: crossing(bundle, cut, seed=seed)})["logits"][0]
                    got = np.frombuffer(event.payloads[0], np.float32)
                    np.testing.assert_allclose(got, alone, atol=1e-4)
                sizes = {event.hints.batch for event in found.values()}
                if sizes == {2}:
                    break
            assert sizes == {2}
        assert edge.terminate() == 0
        assert "failed" not in edge.errors()
