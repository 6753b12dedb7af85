"""Heads and bundles that belong together, and what is said of those that don't."""

from pathlib import Path

import numpy as np
import pytest
from Crypto.PublicKey import RSA

from headtail_edge.gateway.config import ModelConfig
from headtail_edge.gateway.models import (
    HeadFileError,
    HeadMismatchError,
    Models,
    best_class,
    load_models,
)
from headtail_models.bundle.cache import BundleCache
from headtail_models.mcu.features import decode_features
from headtail_models.mcu.twin import Twin
from headtail_models.mcu.update import Release, SigningKey, make_update
from mcu_bundle import LABELS, McuWorld, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> McuWorld:
    return make_world(tmp_path_factory.mktemp("world") / "w")


def load(folder: Path, world: McuWorld, **changes: object) -> Models:
    config = {"heads": (world.head,), "bundle": str(world.bundle.path), **changes}
    return load_models({"digits": ModelConfig(**config)}, BundleCache(folder))  # type: ignore[arg-type]


def test_a_head_and_its_bundle(tmp_path: Path, world: McuWorld) -> None:
    models = load(tmp_path, world)
    assert models.digests() == (world.bundle.digest,)
    assert models.of(0) is None
    model = models.of(world.head_id)
    assert model is not None
    assert model.labels == LABELS
    assert (model.label(1), model.label(9)) == ("right", "9")
    crossing = model.crossing
    assert crossing is not None
    assert (crossing.cut, crossing.payload_bytes) == ("board", 32)
    assert (crossing.tensor.codec, crossing.tensor.quantiser) == ("q4-nhwc", "q4-nhwc")


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_the_tail_reads_what_the_board_means(tmp_path: Path, bits: int) -> None:
    world = make_world(tmp_path / "w", bits=bits)
    codecs = world.bundle.codecs("board")
    codec = codecs.new(codecs.ids[0])
    for outcome in Twin(world.program).run(world.samples[:4]):
        output, packed = world.program.outputs[0], outcome.packed[0]
        read = codec.decode(packed, (1, *world.bundle.cut("board").tensor.shape))
        np.testing.assert_allclose(read, decode_features(output, packed), rtol=1e-5, atol=1e-6)
        assert bytes(codec.encode(read)) == packed


def test_an_update_is_a_head_too(tmp_path: Path, world: McuWorld) -> None:
    path = tmp_path / "2.update"
    release = Release(name="digits", version="2.0", number=2)
    path.write_bytes(make_update(world.program, release, SigningKey(RSA.generate(2048))))
    models = load(tmp_path, world, heads=(), update=path)
    model = models.of(world.head_id)
    assert model is not None
    assert model.update is not None
    assert (model.update.release, model.update.head) == (2, world.head_id)
    path.write_bytes(b"{}\nxx\nnothing")
    with pytest.raises(HeadFileError, match="not a signed update"):
        load(tmp_path, world, update=path)


def test_files_that_are_no_heads(tmp_path: Path, world: McuWorld) -> None:
    bad = tmp_path / "bad.head"
    with pytest.raises(HeadFileError, match="No such file"):
        load(tmp_path, world, heads=(bad,))
    bad.write_bytes(world.program.blob[:-1])
    with pytest.raises(HeadFileError, match=r"bad\.head: "):
        load(tmp_path, world, heads=(bad,))


def test_heads_and_bundles_that_do_not_belong_together(tmp_path: Path, world: McuWorld) -> None:
    with pytest.raises(HeadMismatchError, match="no bundle is named"):
        load(tmp_path, world, bundle=None)
    coarse = make_world(tmp_path / "coarse", bits=2)
    with pytest.raises(HeadMismatchError, match="sends q2-nhwc, cut 'board' has q4-nhwc"):
        load(tmp_path, world, heads=(coarse.head,))
    one = ModelConfig(heads=(world.head,), bundle=str(world.bundle.path))
    with pytest.raises(HeadFileError, match="have the same head"):
        load_models({"a": one, "b": one}, BundleCache(tmp_path))


def test_the_best_class() -> None:
    answer, score = best_class(np.array([1.0, 3.0, 2.0], dtype=np.float32))
    assert answer == 1
    assert score == pytest.approx(np.exp(3) / np.exp([1, 2, 3]).sum())
    assert best_class(np.array([np.nan, np.inf], dtype=np.float32))[0] == 1
