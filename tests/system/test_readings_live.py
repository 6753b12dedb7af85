"""Readings of sensors through a real pipe into a real device, with a real edge behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headtail.local_edge import LocalEdge
from processes import records
from tiny_sound import tiny_signal, tiny_sound_bundle

pytestmark = pytest.mark.system


def test_lines_on_standard_input_are_answered(tmp_path: Path) -> None:
    bundle = tiny_sound_bundle(tmp_path, preprocess=tiny_signal())
    out = tmp_path / "out.jsonl"
    rows = [f"{number}," + ",".join(["9" if number < 96 else "-9"] * 64) for number in range(200)]
    text = "\n".join([*rows[:100], "a line of noise", *rows[100:]]) + "\n"
    with LocalEdge(bundle, log=tmp_path / "edge.log") as edge:
        command = [sys.executable, "-m", "headtail", "device", "run", "--source", "-"]
        command += ["--bundle", str(bundle), "--edge", edge.endpoint, "--json", str(out)]
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    lines = records(out)
    by_outcome = {line["outcome"] for line in lines}
    assert by_outcome == {"edge", "unreadable"}
    answered = [line for line in lines if line["outcome"] == "edge"]
    assert len(answered) == 1 + (200 - 96) // 48
    assert [line["frame"] for line in lines] == list(range(len(lines)))
    first, last = (json.dumps(answered[at]["answer"]) for at in (0, -1))
    assert "loud" in first
    assert "quiet" in last
