"""Cuts of bundles as heads for boards: released, read, exported, and answered by their tail."""

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from msgspec.structs import replace

from headtail.cli import main
from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import Cut, QuantiserTable
from headtail_models.head_chain import GateSettings, HeadChain
from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.errors import UnsupportedCutError
from headtail_models.mcu.features import decode_features
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.twin import Twin
from headtail_models.training import board_chart, digits_release
from headtail_models.training.board_findings import Findings
from headtail_models.training.board_release import CUT, Given, command, exported
from headtail_models.training.recipe import Recipe
from tiny_board import given, inputs, make, waves


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Findings]:
    return make(tmp_path_factory.mktemp("board"))


@pytest.fixture
def bundle(made: tuple[Bundle, Findings]) -> Bundle:
    return made[0]


def changed(bundle: Bundle, **fields: object) -> Bundle:
    """With another cut; its files stay."""
    cut = replace(bundle.manifest.cuts[0], **fields)
    return dataclasses.replace(bundle, manifest=replace(bundle.manifest, cuts=(cut,)))


def test_findings_are_of_the_test_split(made: tuple[Bundle, Findings]) -> None:
    bundle, found = made
    cut = bundle.cut(CUT)
    assert found.samples == 40
    assert found.raw_bytes == 32 * 3 * 2
    assert found.payload_bytes == {8: 12, 4: 6, 2: 3}
    assert [one.codec for one in cut.measured] == ["q8-nhwc", "q4-nhwc", "q2-nhwc"]
    assert cut.measured[1].value == found.int_tail[4]
    assert bundle.manifest.full_value == round(found.float_full, 4)
    for one in found.together:
        assert one.sent_bytes == pytest.approx((1 - one.coverage) * found.payload_bytes[one.bits])
    thresholds = [point.threshold for point in cut.exits()[0].points]
    assert thresholds == sorted(thresholds)


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_the_tail_gets_what_the_board_sends(bundle: Bundle, bits: int) -> None:
    cut = read_cut(bundle, CUT, bits=bits)
    program = exported(cut, bundle.path / SAMPLES)
    assert program.exit is not None
    front, twin = read_front(program.front), Twin(program)
    codec = bundle.codecs(CUT).new(f"q{bits}-nhwc")
    chain = HeadChain(bundle.cut(CUT), bundle.open_stage, settings=GateSettings(exit_point="off"))
    samples = waves(12, seed=5).samples
    steps = []
    for one in samples:
        outcome = twin.run_levels(front.patch_of(one))
        payload = outcome.packed[1]
        tensor = codec.decode(payload, (1, *bundle.cut(CUT).tensor.shape))
        np.testing.assert_array_equal(tensor, decode_features(program.outputs[1], payload))
        wanted = chain.run(inputs(one[np.newaxis])).tensor
        assert wanted is not None
        steps.append(np.abs(tensor - wanted).mean() / program.outputs[1].quantiser.scale)
    assert np.mean(steps) < 1


def test_exit_is_that_of_the_point(bundle: Bundle) -> None:
    gate = bundle.cut(CUT).exits()[0]
    eager, default = (read_cut(bundle, CUT, bits=4, point=name).exit for name in ("drop-2", ""))
    assert eager is not None
    assert default is not None
    assert eager.threshold == gate.points[0].threshold
    assert default.threshold == gate.points[1].threshold
    assert default.temperature == gate.temperature


def table(low: tuple[float, ...], high: tuple[float, ...]) -> dict[str, dict[str, QuantiserTable]]:
    return {"quantisers": {"q4-nhwc": QuantiserTable(low=low, high=high)}}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"codecs": ("q8-nhwc", "raw")}, "can't be sent in q4-nhwc; boards' codecs: q8-nhwc"),
        ({"quantisers": {}}, "can't be sent in q4-nhwc"),
        (table((0.0,) * 3, (6.0, 6.0, 5.0)), "ranges of their own"),
        (table((1.0,) * 3, (6.0,) * 3), "or without 0"),
    ],
)
def test_refuses_codes_that_boards_have_not(
    bundle: Bundle, fields: dict[str, object], why: str
) -> None:
    with pytest.raises(UnsupportedCutError, match=why):
        read_cut(changed(bundle, **fields), CUT, bits=4)


def test_refuses_exits_that_boards_have_not(bundle: Bundle) -> None:
    def cut(**fields: object) -> Bundle:
        return changed(bundle, gates=(replace(bundle.cut(CUT).exits()[0], **fields),))

    def read(of: Bundle, point: str = "") -> None:
        read_cut(of, CUT, bits=4, point=point)

    with pytest.raises(UnsupportedCutError, match="decides by entropy, boards by max-prob"):
        read(cut(criterion="entropy"))
    with pytest.raises(UnsupportedCutError, match="a logit for going on"):
        read(cut(goes_on=True))
    with pytest.raises(UnsupportedCutError, match="no point 'x', only drop-2"):
        read(bundle, "x")
    closed = tuple(replace(point, threshold=2.0) for point in bundle.cut(CUT).exits()[0].points)
    with pytest.raises(UnsupportedCutError, match="closed at 'drop-1'"):
        read(cut(points=closed))
    gates = bundle.cut(CUT).gates
    with pytest.raises(UnsupportedCutError, match="has 2 gates; a board has one exit"):
        read(changed(bundle, gates=gates + gates))


def test_a_cut_without_gates(bundle: Bundle) -> None:
    """The head of this one begins at what the trunk leaves."""
    plain: Cut = replace(bundle.cut(CUT), gates=())
    cut = read_cut(changed(bundle, gates=plain.gates), CUT, bits=2)
    assert cut.exit is None
    assert list(cut.graph.outputs) == [CUT]
    assert cut.graph.input_shape.c == 8


def test_command_makes_a_head_of_a_bundle(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "a.head"
    words = ["export", "mcu", str(bundle.path), "--board", "rp2040", "--bits", "4"]
    assert main([*words, "--out", str(target)]) == 0
    program = read_blob(target.read_bytes())
    assert program.front
    assert program.exit is not None
    said = capsys.readouterr().out
    assert "scaled" in said
    assert "RAM beside curve" in said
    assert main([*words, "--out", str(target), "--link", "serial"]) == 0
    assert "RAM beside serial" in capsys.readouterr().out
    assert "Output code" in said
    assert "Output exit-logits" in said
    assert main([*words, "--out", str(target), "--max-ms", "0.01"]) == 1
    assert "ms more than the 0.01 there are" in capsys.readouterr().err
    for more, why in (
        (["--exit", "x"], "a bundle knows its exit"),
        (["--temperature", "2"], "a bundle knows its exit"),
        (["--cut", "x"], "no cut 'x'"),
        (["--point", "x"], "no point 'x'"),
    ):
        assert main([*words, "--out", str(target), *more]) == 1
        assert why in capsys.readouterr().err


def test_command_tells_a_file_from_a_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", "mcu", "head.onnx", "--board", "rp2040", "--out", "a.head"]
    assert main(words) == 1
    assert "needs --samples" in capsys.readouterr().err
    assert main([*words, "--cut", "a"]) == 1
    assert "belong to a bundle" in capsys.readouterr().err


def test_release_command_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--{name}={tmp_path / name}" for name in ("data", "cache", "trained", "out")]
    assert digits_release.main(words) == 1
    assert "no spoken-digits.tar" in capsys.readouterr().out


def test_release_command_writes_its_findings(tmp_path: Path) -> None:
    (tmp_path / "trained").mkdir()
    state = given().network.state_dict()
    torch.save({"network": state, "scores": {}}, tmp_path / "trained" / "best.pt")
    words = [f"--{name}={tmp_path / name}" for name in ("data", "cache", "trained", "out")]
    found = tmp_path / "found.json"

    def build(recipe: Recipe, data: Path, cache: Path) -> Given:
        assert recipe.name == "motion"
        return given()

    assert command("motion", build, [*words, f"--json={found}"]) == 0
    findings = msgspec.json.decode(found.read_bytes(), type=Findings)
    assert findings.payload_bytes[4] == 6
    assert (tmp_path / "out" / "bundle.json").exists()
    assert board_chart.main([str(found), f"--out={tmp_path / 'chart.png'}"]) == 0
    assert (tmp_path / "chart.png").read_bytes()[:4] == b"\x89PNG"
