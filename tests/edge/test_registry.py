"""Bundles by digest, and stages that are opened once."""

import threading
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, encoded, write_with_a_bad_coder
from headtail_edge.plan import LazyStage, PlanKey
from headtail_edge.registry import BundleRegistry
from headtail_models.bundle import Bundle, SecretKey
from headtail_models.bundle.errors import (
    BadCoderError,
    CodecNotAllowedError,
    NoSuchBundleError,
    UnsignedBundleError,
)
from headtail_models.bundle.specimen import write_specimen
from headtail_models.stage import Stage


def test_a_loaded_bundle_is_found_by_its_digest(specimen_path: Path, specimen: Bundle) -> None:
    registry = BundleRegistry()
    assert registry.get(specimen.digest) is None
    bundle = registry.load(specimen_path)
    assert registry.get(specimen.digest) is bundle
    assert registry.digests() == (specimen.digest,)
    assert repr(registry) == "<BundleRegistry specimen-1.0>"


def test_loading_a_bundle_again_changes_nothing(specimen_path: Path, specimen: Bundle) -> None:
    registry = BundleRegistry()
    first = registry.load(specimen_path)
    plan = registry.plan(specimen.digest, "late")
    registry.load(specimen_path)
    assert registry.bundles() == (first,)
    assert registry.plan(specimen.digest, "late") is plan


def test_there_is_a_plan_for_each_cut_and_for_pictures(
    specimen_path: Path, specimen: Bundle
) -> None:
    registry = BundleRegistry()
    registry.load(specimen_path)
    for cut in ("early", "late", "input"):
        plan = registry.plan(specimen.digest, cut)
        assert plan is not None
        assert plan.key == PlanKey(specimen.digest, cut)
        assert plan.takes_pictures == (cut == "input")
    assert registry.plan(specimen.digest, "nowhere") is None
    assert registry.plan(bytes(32), "late") is None


def test_a_bundle_that_fails_leaves_the_others_served(specimen_path: Path, tmp_path: Path) -> None:
    registry = BundleRegistry()
    registry.load(specimen_path, warm=True)
    with pytest.raises(NoSuchBundleError):
        registry.load(tmp_path / "nothing")
    assert len(registry) == 1


def test_with_trusted_keys_a_signature_is_needed(specimen_path: Path, tmp_path: Path) -> None:
    key = SecretKey.generate()
    registry = BundleRegistry(trusted=[key.public])
    with pytest.raises(UnsignedBundleError):
        registry.load(specimen_path)
    registry.load(write_specimen(tmp_path / "signed", key=key))
    assert len(registry) == 1


def test_a_codec_that_a_cut_does_not_allow_is_not_made(
    specimen_path: Path, specimen: Bundle
) -> None:
    registry = BundleRegistry()
    registry.load(specimen_path)
    plan = registry.plan(specimen.digest, "late")
    assert plan is not None
    with pytest.raises(CodecNotAllowedError, match="allowed there: raw, "):
        plan.codecs.new("webp")


@pytest.mark.parametrize("codec", ["raw", "raw+zstd", "q8", "q8+zstd", "q4"])
def test_a_plan_decodes_what_a_device_encodes(
    specimen_path: Path, specimen: Bundle, codec: str
) -> None:
    registry = BundleRegistry()
    registry.load(specimen_path)
    plan = registry.plan(specimen.digest, "late")
    assert plan is not None
    tensor = np.clip(crossing(specimen, "late"), 0.0, 0.2)
    info, payload = encoded(specimen, "late", tensor, codec)
    decoded = plan.decode(plan.codecs.new(codec), payload, info.shape)
    assert decoded.shape == tensor.shape
    table = specimen.quantiser("late", "q8")
    steps = {"q8": 255, "q4": 15}.get(codec.partition("+")[0])
    if steps is None:
        np.testing.assert_array_equal(decoded, tensor)
    else:
        low, high = (end.reshape(1, -1, 1, 1) for end in (table.low, table.high))
        inside = np.clip(tensor, low, high)
        assert np.all(np.abs(decoded - inside) <= (high - low) / steps / 2 + 1e-6)


def test_a_lazy_stage_is_opened_once_by_many_threads(specimen: Bundle) -> None:
    opened: list[Stage] = []
    everyone = threading.Barrier(4)

    def open_stage() -> Stage:
        opened.append(specimen.open_stage(specimen.tail("late")))
        return opened[-1]

    stage = LazyStage(open_stage)

    def use() -> None:
        everyone.wait()
        stage.get()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert stage.get() is opened[0]


def test_a_stage_that_could_not_be_opened_is_tried_again(specimen: Bundle) -> None:
    tries = iter([MemoryError("no memory"), None])

    def open_stage() -> Stage:
        error = next(tries)
        if error is not None:
            raise error
        return specimen.open_stage(specimen.tail("late"))

    stage = LazyStage(open_stage)
    with pytest.raises(MemoryError):
        stage.get()
    assert stage.get() is stage.get()


def test_a_bundle_whose_coder_does_not_fit_is_not_served(tmp_path: Path) -> None:
    bad = write_with_a_bad_coder(tmp_path / "bad")
    registry = BundleRegistry()
    with pytest.raises(BadCoderError, match=r"code\.rans"):
        registry.load(bad.path)
    assert len(registry) == 0
    assert registry.plan(bad.digest, "late") is None
