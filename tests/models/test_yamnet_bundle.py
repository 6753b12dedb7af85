"""The bundle `yamnet-audio`, of a network with random weights around the released parts."""

from pathlib import Path

import numpy as np
import pytest

from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle, write_bundle
from headtail_models.bundle.manifest import LogMel, QuantiserTable, TagTask
from headtail_models.head_chain import GateSettings, HeadChain
from headtail_models.task import TagAnswer, task_for
from headtail_models.zoo import yamnet, yamnet_calibrate
from headtail_models.zoo.records import Calibration, read_calibration
from headtail_models.zoo.released import released_cuts
from headtail_models.zoo.yamnet_layers import CLASSES, shape
from random_yamnet import random_yamnet

LABELS = tuple(f"class {at}" for at in range(CLASSES))
SOUND = (0.1 * np.random.default_rng(2).normal(size=15_600)).astype(np.float32)


def _table(channels: int) -> QuantiserTable:
    return QuantiserTable(low=(0.0,) * channels, high=(4.0,) * channels)


def _build(folder: Path, *, trained: bool = True) -> Bundle:
    tables = {f"L{at}": dict.fromkeys(("q8", "q4"), _table(shape(at)[0])) for at in range(1, 15)}
    (folder / "stages").mkdir(parents=True)
    manifest = yamnet.write(
        random_yamnet(),
        LABELS,
        folder / "stages",
        calibration=Calibration(network=yamnet.NAME, photos="", cuts=tables),
        parts=released_cuts(yamnet.NAME) if trained else (),
    )
    return open_bundle(write_bundle(folder / "stages", manifest, folder / "bundle"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return _build(tmp_path_factory.mktemp("yamnet"))


def test_the_bundle_is_known_and_whole(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert yamnet.NAME in zoo.known()
    assert [cut.name for cut in manifest.cuts] == [
        *("L1", "L2", "L3", "L4", "L6", "L12", "L14", "bottleneck")
    ]
    assert (manifest.default_cut, manifest.default_codec) == ("bottleneck", "rans")
    assert manifest.task == TagTask(output="logits")
    assert manifest.preprocess == LogMel()
    assert manifest.metric == ""
    assert not any(cut.measured for cut in manifest.cuts)
    assert "sead" in manifest.provenance[0].source


def test_the_same_parts_give_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    assert _build(tmp_path).digest == bundle.digest


def test_without_trained_parts_there_are_plain_cuts(tmp_path: Path) -> None:
    manifest = _build(tmp_path, trained=False).manifest
    assert (manifest.default_cut, manifest.default_codec) == ("L14", "q8+zstd")
    assert manifest.cut("bottleneck") is None


def test_a_sound_at_every_plain_cut(bundle: Bundle) -> None:
    task = task_for(bundle.manifest)
    patch, place = task.prepare(SOUND)
    whole = bundle.open_stage(bundle.full()).run({"patch": patch})
    assert isinstance(task.answer(task.finish(whole)[0], place), TagAnswer)
    for cut in bundle.manifest.cuts[:-1]:
        crossing = bundle.open_stage(cut.head).run({"patch": patch})
        found = bundle.open_stage(cut.tail).run(crossing)["logits"]
        scale = float(np.abs(whole["logits"]).max())
        np.testing.assert_allclose(found, whole["logits"], atol=1e-4 * scale)


def test_a_sound_through_the_gate_the_coder_and_the_joined_tail(bundle: Bundle) -> None:
    task = task_for(bundle.manifest)
    cut = bundle.manifest.cut("bottleneck")
    assert cut is not None
    assert cut.device_macs < 0.2 * bundle.manifest.full.macs
    chain = HeadChain(cut, bundle.open_stage, settings=GateSettings(exit_point="off"))
    run = chain.run(task.prepare(SOUND)[0])
    assert run.tensor is not None
    for codec_id in cut.codecs:
        codec = bundle.codecs(cut.name).new(codec_id)
        payload = codec.encode(run.tensor)
        arrived = codec.decode(payload, run.tensor.shape)
        tail = bundle.open_stage(cut.tail).run({cut.tensor.name: arrived})
        assert isinstance(task.answer(task.finish(tail)[0], None), TagAnswer)


def test_released_ranges_fit_the_network() -> None:
    record = read_calibration(yamnet.NAME)
    assert list(record.cuts) == [f"L{after}" for after in yamnet.NATURAL_CUTS]
    for name, tables in record.cuts.items():
        assert set(tables) == {"q8", "q4"}
        for table in tables.values():
            assert table.quantiser().channels == shape(int(name[1:]))[0]


def test_ranges_are_found_on_patches() -> None:
    patches = np.random.default_rng(3).normal(size=(3, 1, 96, 64)).astype(np.float32)
    tables = yamnet_calibrate.calibrate(random_yamnet(), patches, (1,))
    assert set(tables) == {"L1"}
    assert tables["L1"]["q4"].quantiser().channels == 32
    assert max(tables["L1"]["q8"].high) > 0


def test_calibration_needs_sounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert yamnet_calibrate.main([str(tmp_path), str(tmp_path / "out.json")]) == 1
    assert "no sounds in" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
