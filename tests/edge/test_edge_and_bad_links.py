"""Messages that come twice, late or in another order than they were sent, through a whole edge."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest

import headtail_edge
from edge_doubles import Rig, crossing, encoded, events, send
from headtail_fabric import peer
from headtail_fabric.codec import codec_for
from headtail_fabric.peer.events import Answered
from headtail_fabric.peer.memory import MemoryClient
from headtail_models.bundle import Bundle


@pytest.fixture
def rig(specimen_path: Path, tmp_path: Path) -> Rig:
    return Rig(tmp_path, specimen_path, max_batch=1)


def ask(client: MemoryClient, bundle: Bundle, *, seed: int, deadline_s: float) -> int:
    tensor, payload = encoded(bundle, "late", crossing(bundle, "late", seed=seed), "raw")
    return client.submit(
        bundle=bundle.digest,
        cut="late",
        tensors=[tensor],
        payloads=[payload],
        deadline_s=deadline_s,
    )


def test_replies_that_come_in_another_order_and_twice_reach_their_own_requests(
    rig: Rig, specimen: Bundle
) -> None:
    rig.link.fault_up = lambda frames: 2
    rig.link.fault_down = lambda frames: 2
    device = rig.device()
    # The later it is asked, the sooner it is due: answers come in reverse.
    asked = {ask(device, specimen, seed=n, deadline_s=1.9 - 0.1 * n): n for n in range(6)}
    rig.step()
    answers = [event for event in events(device) if isinstance(event, Answered)]
    assert [answer.id for answer in answers] == sorted(asked, reverse=True)
    assert rig.requests == {"answered": 6}
    for answer in answers:
        found = codec_for("raw").decode(answer.payloads[0], answer.tensors[0].shape)
        sent = crossing(specimen, "late", seed=asked[answer.id])
        expected = specimen.open_stage(specimen.tail("late")).run({"late": sent})["logits"][0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_replies_that_are_lost_are_sent_again_and_nothing_is_computed_twice(
    rig: Rig, specimen: Bundle
) -> None:
    device, draw = rig.device(), random.Random(5)
    rig.link.fault_down = lambda frames: int(draw.random() < 0.4)
    for _ in range(5):
        send(device, specimen, deadline_s=30.0)
    found: list[object] = []
    for _ in range(590):
        rig.step()
        found += [event for event in events(device) if isinstance(event, Answered)]
        rig.clock.advance(0.05)
    assert len(found) == 5
    assert rig.requests == {"answered": 5}


@pytest.mark.parametrize("package", [headtail_edge, peer])
def test_no_decision_is_made_by_the_time_of_day(package: object) -> None:
    """So nothing happens when the wall clock is set, or is wrong."""
    wall = {("time", "time"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}
    folder = Path(str(package.__file__)).parent  # type: ignore[attr-defined]
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in wall, f"{path}:{node.lineno}"
