"""Bundles by digest, and stages that are opened once."""

import threading
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, encoded, write_with_a_bad_coder
from headtail_edge.plan import PlanKey
from headtail_edge.registry import BundleRegistry
from headtail_edge.stage_memory import LazyStage, StageMemory
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


def test_what_is_unloaded_is_not_served_but_whoever_has_its_plan_may_finish(
    specimen_path: Path, specimen: Bundle
) -> None:
    registry = BundleRegistry()
    registry.load(specimen_path, warm=True)
    plan = registry.plan(specimen.digest, "late")
    assert plan is not None
    assert registry.unload(specimen.digest)
    assert registry.get(specimen.digest) is None
    assert registry.plan(specimen.digest, "late") is None
    assert not plan.stage.is_open
    assert plan.stage.get() is not None
    assert not registry.unload(specimen.digest)


def test_listeners_are_told_what_is_served_now_and_at_each_change(
    specimen_path: Path, specimen: Bundle
) -> None:
    told: list[tuple[bytes, ...]] = []
    registry = BundleRegistry()
    registry.subscribe(lambda digests: told.append(tuple(digests)))
    registry.load(specimen_path)
    registry.load(specimen_path)
    registry.unload(specimen.digest)
    assert told == [(), (specimen.digest,), ()]


def test_pinned_bundles_are_known_by_name_with_or_without_the_version(
    specimen_path: Path, specimen: Bundle
) -> None:
    for pinned, expected in (("specimen", True), ("specimen-1.0", True), ("other", False)):
        registry = BundleRegistry(memory=StageMemory(1), pinned=[pinned])
        registry.load(specimen_path)
        plan = registry.plan(specimen.digest, "late")
        assert plan is not None
        assert plan.stage.pinned is expected
