"""`headtail top` on a real edge and a real device."""

import json
from pathlib import Path
from typing import Any

import pytest

from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, free_port, records, wait_until, write_clip

pytestmark = pytest.mark.system


def top(*words: str) -> tuple[int, list[dict[str, Any]]]:
    with Headtail("top", "--once", "--json", "--every", "1", *words) as process:
        output = process.process.communicate(timeout=PATIENCE_S)[0]
        return process.process.returncode, json.loads(output)["targets"]


def test_devices_edges_and_what_is_gone(tmp_path: Path) -> None:
    bundle = write_specimen(tmp_path / "specimen")
    clip = write_clip(tmp_path / "clip.mp4", frames=3000, rate_hz=50)
    out = tmp_path / "frames.jsonl"
    edge_port, device_port = free_port(), free_port()
    serve = ("edge", "serve", "--bind", "tcp://127.0.0.1:0", "--bundle", str(bundle))
    with Headtail(*serve, "--metrics-port", str(edge_port)) as edge:
        words = ("device", "run", "--bundle", str(bundle), "--source", str(clip))
        how = ("--edge", edge.ready()["endpoint"], "--json", str(out), "--pace", "realtime")
        with Headtail(*words, *how, "--metrics-port", str(device_port)) as device:
            wait_until(lambda: len(records(out)) >= 20, "answers")
            status, targets = top(str(edge_port), str(device_port), "1")
            assert status == 0
            first, second, third = targets
            assert first["kind"] == "edge"
            assert first["sessions"] == 1
            assert first["requests_per_s"]["answered"] > 1
            assert first["batch_mean"] >= 1
            assert second["kind"] == "device"
            assert second["frames_per_s"] > 1
            assert second["edge_ready"] is True
            assert second["rtt_s"] > 0
            assert second["latency_p95_s"] > 0
            assert third["kind"] == "unreachable"
            assert "refused" in third["problem"]
            assert device.terminate() == 0
        assert edge.terminate() == 0
    assert top(str(edge_port))[0] == 1
