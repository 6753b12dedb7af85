"""What a device measured of itself is kept."""

from pathlib import Path

import pytest

from headtail_device import cost_store
from headtail_device.controller import StageCosts, WayCost
from headtail_device.cost_store import CostStore, machine_id

COSTS = StageCosts(
    ways={"local": WayCost(compute_s=0.25), "a q8": WayCost(compute_s=0.1, payload_bytes=10.5)}
)


def store(folder: Path) -> CostStore:
    return CostStore(folder / "costs", digest=bytes(32), machine="0123456789ab")


def test_what_is_kept_is_there_at_the_next_start(tmp_path: Path) -> None:
    assert store(tmp_path).load() is None
    store(tmp_path).save(COSTS)
    assert store(tmp_path).load() == COSTS
    assert store(tmp_path).path.name == "00" * 32 + "-0123456789ab.json"
    assert len(list((tmp_path / "costs").iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"ways": 1}', b'{"ways": {"a": {}}}', b"\xff"])
def test_what_is_damaged_is_measured_again(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path).save(COSTS)
    store(tmp_path).path.write_bytes(content)
    assert store(tmp_path).load() is None
    assert "measuring again" in caplog.text


def test_a_folder_that_can_not_be_written_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "costs").write_text("in the way")
    store(tmp_path).save(COSTS)
    assert "can't be kept" in caplog.text


def test_a_machine_is_known_by_what_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine_id(threads=1) == machine_id(threads=1) != machine_id(threads=2)
    assert len(machine_id(threads=1)) == 12
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor : 0\nmodel name : A\nflags : x\nmodel name : A\n")
    monkeypatch.setattr(cost_store, "_PROCESSORS", processors)
    first = machine_id(threads=1)
    processors.write_text("processor : 0\nmodel name : B\n")
    assert machine_id(threads=1) != first
    processors.unlink()
    assert len(machine_id(threads=1)) == 12
