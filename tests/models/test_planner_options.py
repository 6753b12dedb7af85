"""From costs to options, and costs as a file."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from headtail_fabric.errors import ConfigError
from headtail_models.planner import Device, options_of
from headtail_models.planner.costs import (
    Crossing,
    CutCost,
    Machine,
    ModelCosts,
    PayloadCost,
    read_costs,
    write_costs,
)
from headtail_models.planner.errors import PlanFileError


def cut(name: str, head_s: float, *, measured: bool = True) -> CutCost:
    return CutCost(
        name=name,
        tensors=(Crossing(name=name, dtype="float32", shape=(1, 4)),),
        head_macs=100,
        head_s=head_s,
        tail_s=0.2,
        measured=measured,
        payloads=(
            PayloadCost(codec="raw", mean_bytes=16, encode_s=0.001, decode_s=0.002),
            PayloadCost(codec="q8+zstd", mean_bytes=3, encode_s=0.01, decode_s=0.02, samples=2),
        ),
    )


COSTS = ModelCosts(
    model="m.onnx",
    sha256="0" * 64,
    machine=Machine(processor="x", cores=2, load=0.5, onnxruntime="1.0"),
    samples=2,
    full_macs=300,
    full_s=0.4,
    cuts=(cut("a", 0.1), cut("b", 0.3, measured=False)),
    offload=(PayloadCost(codec="jpeg90", mean_bytes=50, encode_s=0.01, decode_s=0.005),),
)


def by_name(device: Device, codecs: frozenset[str] | None = None) -> dict[tuple[str, str], float]:
    return {(o.name, o.codec): o.device_s for o in options_of(COSTS, device, codecs=codecs)}


def test_everything_there_is_with_a_slower_device() -> None:
    found = by_name(Device(slowdown=2))
    assert found == pytest.approx(
        {
            ("local", ""): 0.8,
            ("a", "raw"): 0.202,
            ("a", "q8+zstd"): 0.22,
            ("b", "raw"): 0.602,
            ("b", "q8+zstd"): 0.62,
            ("offload", "jpeg90"): 0.02,
        }
    )
    options = {(o.name, o.codec): o for o in options_of(COSTS, Device())}
    assert options["a", "raw"].server_s == pytest.approx(0.202)
    assert options["offload", "jpeg90"].server_s == pytest.approx(0.405)
    assert options["b", "raw"].estimated
    assert not options["a", "raw"].estimated


def test_codecs_can_be_left_out() -> None:
    assert set(by_name(Device(), frozenset({"raw"}))) == {
        ("local", ""),
        ("a", "raw"),
        ("b", "raw"),
        ("offload", "jpeg90"),
    }


def test_a_profile_of_the_device_is_heeded() -> None:
    theirs = replace(
        COSTS,
        full_s=4.0,
        cuts=(
            replace(cut("a", 1.7), payloads=(PayloadCost(codec="raw", mean_bytes=1, encode_s=1),)),
        ),
    )
    found = by_name(Device(profile=theirs))
    assert found["local", ""] == 4.0
    assert found["a", "raw"] == pytest.approx(2.7)
    # What the profile lacks is as much slower as the whole model: ten times.
    assert found["a", "q8+zstd"] == pytest.approx(1.8)
    assert found["b", "raw"] == pytest.approx(3.01)
    options = {(o.name, o.codec): o for o in options_of(COSTS, Device(profile=theirs))}
    assert options["b", "raw"].estimated


def test_costs_come_back_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_costs(COSTS, path)
    assert read_costs(path, sha256="0" * 64) == COSTS
    assert COSTS.cut("a") is COSTS.cuts[0]
    assert COSTS.cut("none") is None


def test_files_that_are_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text in ("", "{}", "[" * 5000, '{"schema": "1"}', "\xff"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(PlanFileError):
            read_costs(path)
    write_costs(replace(COSTS, schema=9), path)
    with pytest.raises(PlanFileError, match="schema 9"):
        read_costs(path)
    write_costs(replace(COSTS, full_s=-1.0), path)
    with pytest.raises(PlanFileError, match="full_s"):
        read_costs(path)
    write_costs(COSTS, path)
    with pytest.raises(PlanFileError, match="another model"):
        read_costs(path, sha256="1" * 64)
    with pytest.raises(ConfigError, match="No such file"):
        read_costs(tmp_path / "none")
    with pytest.raises(ConfigError, match="No such file"):
        write_costs(COSTS, tmp_path / "none" / "plan.json")
