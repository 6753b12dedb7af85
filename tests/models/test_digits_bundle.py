"""The released bundles for boards: they build, fit the boards, and their heads answer."""

from pathlib import Path

import numpy as np
import pytest

from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.mcu.boards import BOARDS, LinkKind
from headtail_models.mcu.costs import budget
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.fidelity import compare
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.samples import read_npy
from headtail_models.training.board_release import exported

NAMES = ("spoken-digits", "motion")
MACS = {"spoken-digits": 1_900_000, "motion": 160_000}
"""What a sample costs a board at most, exit and code together."""
TOO_SMALL: dict[str, set[tuple[str, LinkKind]]] = {
    "spoken-digits": {
        *(("stm32f4", link) for link in LinkKind),
        *(("nrf52840", link) for link in LinkKind),
    },
    "motion": set(),
}
"""Boards that have too little memory beside a link."""
PAYLOADS = {"spoken-digits": 156, "motion": 32}
"""Bytes at 4 bits a value."""


@pytest.fixture(scope="module", params=NAMES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(zoo.build(request.param, tmp_path_factory.mktemp("zoo") / "bundle"))


def test_the_same_bytes_each_time(bundle: Bundle, tmp_path: Path) -> None:
    again = zoo.build(bundle.manifest.name, tmp_path / "again")
    assert open_bundle(again).digest == bundle.digest


def test_heads_fit_the_boards_that_are_named(bundle: Bundle) -> None:
    """As `firmware/README.md` says; the others are told by how much."""
    name = bundle.manifest.name
    for bits in (8, 4, 2):
        program = exported(read_cut(bundle, "code", bits=bits), bundle.path / SAMPLES)
        assert program.outputs[1].size == PAYLOADS[name] * bits // 4
        for board in BOARDS.values():
            for link in LinkKind:
                spent = budget(program, board, link=link)
                assert spent.macs <= MACS[name]
                if (board.name, link) not in TOO_SMALL[name]:
                    spent.check()
                    continue
                with pytest.raises(DoesNotFitError, match=f"RAM beside {link.value} .* bytes more"):
                    spent.check()
        with pytest.raises(DoesNotFitError, match=r"time .* ms, .* ms more than the 1 there are"):
            budget(program, BOARDS["rp2040"], max_milliseconds=1).check()


def test_integers_answer_as_floats_do(bundle: Bundle) -> None:
    cut = read_cut(bundle, "code", bits=4)
    program = exported(cut, bundle.path / SAMPLES)
    samples = read_npy(bundle.path / SAMPLES, cut.graph.input_shape)[:40]
    found = compare(cut.graph, program, samples)
    logits, code = found.outputs
    assert logits.agreement is not None
    assert logits.agreement > 0.9
    assert code.error < 0.15
    assert found.exits > 0.3
    # Whatever comes, the front end gives levels.
    random = np.random.default_rng(0)
    rows, columns, _ = program.input_shape
    size = (rows, columns) if bundle.manifest.name == "motion" else (7920,)
    levels = read_front(program.front).patch_of(
        random.integers(-32768, 32768, size).astype(np.int16)
    )
    assert levels.shape == program.input_shape


def test_accuracy_is_stated_for_each_codec(bundle: Bundle) -> None:
    cut = bundle.cut("code")
    assert [one.codec for one in cut.measured] == ["q8-nhwc", "q4-nhwc", "q2-nhwc"]
    assert bundle.manifest.full_value is not None
    for one in cut.measured:
        assert one.value > 0.85
        assert one.drop == pytest.approx(bundle.manifest.full_value - one.value, abs=2e-4)
