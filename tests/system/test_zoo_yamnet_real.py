"""The tagger's bundle of the real weights, on sounds that anyone can make."""

from pathlib import Path

import numpy as np
import pytest

from headtail_models import zoo
from headtail_models.assets.errors import UnreachableError
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.head_chain import HeadChain
from headtail_models.task import TagAnswer, task_for

pytestmark = pytest.mark.system

RATE = 16_000
SILENCE = np.zeros(15_600, dtype=np.float32)
TONE = (0.3 * np.sin(2 * np.pi * 1000 * np.arange(15_600) / RATE)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    try:
        path = zoo.build("yamnet-audio", tmp_path_factory.mktemp("zoo") / "bundle")
    except UnreachableError as error:
        pytest.skip(str(error))
    return open_bundle(path)


def test_it_is_the_network_of_its_authors(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert manifest.full.macs == 69_165_056
    assert manifest.labels[0] == "Speech"
    assert manifest.labels[494] == "Silence"
    assert sum(entry.size_bytes for entry in manifest.files) < 17_000_000


def test_it_is_the_same_wherever_it_is_built(bundle: Bundle, tmp_path: Path) -> None:
    assert open_bundle(zoo.build(bundle.manifest.name, tmp_path / "again")).digest == bundle.digest


@pytest.mark.parametrize(("sound", "label"), [(SILENCE, "Silence"), (TONE, "Beep, bleep")])
def test_the_whole_network_hears_it(
    bundle: Bundle, sound: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", label: str
) -> None:
    task = task_for(bundle.manifest)
    patch, place = task.prepare(sound)
    outputs = bundle.open_stage(bundle.full()).run({"patch": patch})
    answer = task.answer(task.finish(outputs)[0], place)
    assert isinstance(answer, TagAnswer)
    assert answer.tags[0].label == label


def test_silence_ends_at_the_exit_and_a_tone_goes_on(bundle: Bundle) -> None:
    task = task_for(bundle.manifest)
    cut = bundle.manifest.cut(bundle.manifest.default_cut)
    assert cut is not None
    chain = HeadChain(cut, bundle.open_stage)
    silent = chain.run(task.prepare(SILENCE)[0])
    assert silent.tensor is None
    heard = task.early_answer(silent.verdicts[-1].shares, cut.exits()[0].classes)
    assert isinstance(heard, TagAnswer)
    assert [tag.label for tag in heard.tags] == ["Silence"]
    assert chain.run(task.prepare(TONE)[0]).tensor is not None
