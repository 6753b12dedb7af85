import numpy as np
import pytest

from headtail_models.exits.cascade import CascadeLogits
from headtail_models.exits.criteria import CRITERIA, Criterion
from headtail_models.exits.survey import Observed, compare_policies, survey

COSTS = (1.0, 2.0, 4.0)


def observed(seed: int, *, samples: int = 1500) -> Observed:
    """Classes that are easy to tell to different degrees, so that exits give them away."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 6, samples)
    logits = []
    for strength in (1.0, 1.8, 2.6):
        row = random.normal(size=(samples, 6))
        row[np.arange(samples), labels] += strength + 0.7 * labels
        logits.append(row.astype(np.float32))
    tensors = np.zeros((samples, 1), dtype=np.float32)
    return Observed(
        logits=CascadeLogits(exits=tuple(logits[:2]), end=logits[2], tensors=tensors),
        labels=labels,
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_computation_is_more_right(criterion: Criterion) -> None:
    found = survey(observed(1), observed(2), COSTS, criterion=criterion)
    costs = [point.cost for point in found.curve]
    assert costs == sorted(costs)
    assert costs[0] == pytest.approx(1.0, abs=0.02)
    assert len(set(costs)) == len(costs)
    assert found.curve[0].accuracy < found.curve[-1].accuracy
    assert abs(found.curve[-1].drop) < 0.02
    assert 0.2 < found.chosen.early < 1
    assert found.chosen.drop < 0.02
    for before, after in found.errors:
        assert after < max(before, 0.05)


def test_policies_leak_less_in_their_order() -> None:
    found = survey(observed(1), observed(2), COSTS, criterion="entropy")
    none, plain, per_class, guided = compare_policies(found, COSTS, windows=800)
    assert [p.policy for p in (none, plain, per_class, guided)] == [
        "no exits",
        "threshold",
        "PCE",
        "CGR",
    ]
    assert none.coverage == (0.0, 0.0)
    assert none.guessed == pytest.approx(1 / 6, abs=0.02)
    assert none.window_bits == pytest.approx(0.0, abs=0.01)
    assert plain.guessed > 2.5 / 6
    assert guided.guessed < per_class.guessed < plain.guessed
    assert guided.window_bits < per_class.window_bits < plain.window_bits
    assert per_class.answer_bits < 0.2 * plain.answer_bits
    for point in (per_class, guided):
        assert sum(point.coverage) == pytest.approx(sum(plain.coverage), abs=0.05)
        assert none.accuracy > point.accuracy


def test_the_same_seed_gives_the_same() -> None:
    found = survey(observed(1, samples=300), observed(2, samples=300), COSTS, criterion="margin")
    assert compare_policies(found, COSTS, seed=4, windows=50) == compare_policies(
        found, COSTS, seed=4, windows=50
    )
