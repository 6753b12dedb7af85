import numpy as np
import pytest
from numpy.typing import NDArray

from headtail_fabric.rans import Alphabet, CodingModel, LevelCoder, fit_conv, fit_tables, specimen

ALPHABET = Alphabet(low=-8, count=17)
SHAPE = (1, 6, 20, 20)
TRAIN = [specimen.levels(SHAPE, ALPHABET, seed=seed)[0] for seed in range(16)]
TEST = [specimen.levels(SHAPE, ALPHABET, seed=seed) for seed in range(100, 104)]


def mean_bytes(model: CodingModel) -> float:
    coder = LevelCoder(model)
    return float(np.mean([len(coder.encode(levels)) for levels in TEST]))


def test_contexts_pay() -> None:
    static = mean_bytes(fit_tables.fit_static(TRAIN, ALPHABET))
    alone = mean_bytes(fit_tables.fit(TRAIN, ALPHABET, references=0))
    table = mean_bytes(fit_tables.fit(TRAIN, ALPHABET))
    recipe = fit_conv.Recipe(hidden=16, radius=1, steps=700, batch=256)
    conv = mean_bytes(fit_conv.fit(TRAIN, ALPHABET, recipe))
    assert alone < 0.9 * static
    assert table < alone
    assert conv < table


def test_tiles_cost_little() -> None:
    whole = fit_tables.fit(TRAIN, ALPHABET)
    tiled = CodingModel(alphabet=ALPHABET, context=whole.context, tables=whole.tables, tiles=(2, 2))
    assert mean_bytes(whole) < mean_bytes(tiled) < 1.1 * mean_bytes(whole)


def test_the_chain_of_references_is_bounded() -> None:
    context = fit_tables.fit(TRAIN, ALPHABET, max_delay=2).context
    delays = context.plan((1, 6, 5, 5)).starts
    assert len(delays) - 1 == 5 + 5 - 1 + 2


def test_fitting_is_repeatable() -> None:
    recipe = fit_conv.Recipe(hidden=4, radius=1, steps=10, batch=32)
    for first, second in (
        (fit_tables.fit(TRAIN, ALPHABET), fit_tables.fit(TRAIN, ALPHABET)),
        (fit_conv.fit(TRAIN, ALPHABET, recipe), fit_conv.fit(TRAIN, ALPHABET, recipe)),
    ):
        assert first.to_bytes() == second.to_bytes()


@pytest.mark.parametrize("level", [-8, 0, 8])
def test_constant_calibration_tensors(level: int) -> None:
    constant = [np.full((6, 5, 5), level, dtype=np.int16)]
    for model in (
        fit_tables.fit(constant, ALPHABET),
        fit_tables.fit_static(constant, ALPHABET),
        fit_conv.fit(constant, ALPHABET, fit_conv.Recipe(hidden=2, radius=1, steps=3, batch=8)),
    ):
        coder = LevelCoder(model)
        for levels in (constant[0][np.newaxis], TEST[0]):
            assert np.array_equal(coder.decode(coder.encode(levels), levels.shape), levels)


@pytest.mark.parametrize(("tables", "references"), [(257, 3), (0, 3), (64, 4), (64, -1)])
def test_numbers_out_of_range_are_refused(tables: int, references: int) -> None:
    with pytest.raises(ValueError, match="tables"):
        fit_tables.fit(TRAIN, ALPHABET, tables=tables, references=references)


def test_slopes_are_those_of_the_bits() -> None:
    random = np.random.default_rng(0)
    outputs = random.normal(0, 1, (5, 6)).astype(np.float32)
    outputs[:, 3:] += fit_conv.MIDDLE
    targets = random.integers(-2, 3, (5, 3)).astype(np.float32)
    _, slopes = fit_conv.logistic_bits(outputs, targets)

    def total(values: NDArray[np.float32]) -> float:
        return fit_conv.logistic_bits(values, targets)[0] * targets.size

    for place in np.ndindex(outputs.shape):
        moved = [outputs.copy(), outputs.copy()]
        moved[0][place] -= 0.01
        moved[1][place] += 0.01
        measured = (total(moved[1]) - total(moved[0])) / 0.02
        assert slopes[place] == pytest.approx(measured, abs=0.02)


@pytest.mark.parametrize(("steps", "rate"), [(1, 1e6), (40, 1e30)])
def test_training_that_diverges_is_named(steps: int, rate: float) -> None:
    recipe = fit_conv.Recipe(hidden=4, radius=1, steps=steps, batch=32, rate=rate)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="lower rate"):
        fit_conv.fit(TRAIN, ALPHABET, recipe)


def test_progress_is_told() -> None:
    heard: list[tuple[int, float]] = []
    recipe = fit_conv.Recipe(hidden=4, radius=1, steps=40, batch=64)
    fit_conv.fit(TRAIN, ALPHABET, recipe, progress=lambda step, bits: heard.append((step, bits)))
    assert [step for step, _ in heard] == list(range(40))
    assert heard[-1][1] < heard[0][1]
