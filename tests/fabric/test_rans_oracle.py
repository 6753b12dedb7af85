"""Our coder against another implementation of asymmetric numeral systems."""

import numpy as np
import pytest

from headtail_fabric.rans import lanes
from headtail_fabric.rans.frequencies import from_counts

constriction = pytest.importorskip("constriction")


def test_as_small_as_constriction() -> None:
    random = np.random.default_rng(0)
    tables = from_counts(random.dirichlet(np.full(16, 0.3), 8))
    chosen = random.integers(0, 8, 30_000)
    ends = np.cumsum(tables.frequencies, axis=1)[chosen]
    symbols = (random.integers(0, 4096, chosen.size)[:, np.newaxis] >= ends).sum(axis=1)
    starts = [*range(0, chosen.size, 300), chosen.size]
    ours = len(lanes.encode(tables, chosen, symbols, starts))
    coder = constriction.stream.stack.AnsCoder()
    family = constriction.stream.model.Categorical(perfect=False)
    probabilities = tables.frequencies[chosen].astype(np.float32) / 4096
    coder.encode_reverse(symbols.astype(np.int32), family, probabilities)
    theirs = 4 * len(coder.get_compressed())
    assert abs(ours - theirs) <= 0.005 * theirs + 80
