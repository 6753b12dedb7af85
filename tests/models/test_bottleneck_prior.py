"""The prior: it looks only at what was decoded before, and its integers cost what it said."""

import numpy as np
import pytest
import torch

from headtail_fabric.rans import Alphabet, LevelCoder
from headtail_models.bottleneck.prior import Prior
from headtail_models.bottleneck.rounding import HIGHEST, LOWEST, noisy, rounded

ALPHABET = Alphabet(low=LOWEST, count=HIGHEST - LOWEST + 1)


def _latents(count: int = 12) -> torch.Tensor:
    """Rows that go on like the row above, in every channel with another scale."""
    torch.manual_seed(0)
    drift = torch.randn(count, 3, 1, 10) * 6 + 0.5 * torch.randn(count, 3, 8, 10)
    return drift * torch.tensor([1.0, 0.4, 0.1]).reshape(1, 3, 1, 1)


def _trained(step: float = 1.0) -> Prior:
    torch.manual_seed(1)
    prior = Prior(3, hidden=12)
    optimiser = torch.optim.Adam(prior.parameters(), lr=0.02)
    latents = _latents()
    for _ in range(150):
        whole = rounded(latents, step)
        loss = prior.bits(whole, whole, step).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return prior


def test_it_sees_only_what_was_decoded_before() -> None:
    prior = Prior(3, hidden=12)
    torch.nn.init.normal_(prior.second.weight)
    whole = rounded(_latents(1), 1.0)
    before = prior.predict(whole, 1.0)
    changed = whole.clone()
    changed[0, :, 4, 5] += 9
    after = prior.predict(changed, 1.0)
    for old, new in zip(before, after, strict=True):
        moved = (old != new).any(dim=1)[0]
        rows, columns = torch.nonzero(moved, as_tuple=True)
        places = set(zip(rows.tolist(), columns.tolist(), strict=True))
        assert places
        assert all(row > 4 or (row == 4 and column > 5) for row, column in places)


@pytest.mark.parametrize("step", [1.0, 2.0])
def test_its_integers_cost_what_it_said(step: float) -> None:
    prior, latents = _trained(), _latents()
    with torch.no_grad():
        whole = rounded(latents, step)
        said = float(prior.bits(whole, whole, step).sum()) / 8 / len(latents)
    levels = whole.detach().numpy().astype(np.int16)
    coder = LevelCoder(prior.coding_model(levels, ALPHABET, step=step, tiles=(1, 1)))
    payloads = [coder.encode(level[np.newaxis]) for level in levels]
    for payload, level in zip(payloads, levels, strict=True):
        assert np.array_equal(coder.decode(payload, (1, *level.shape)), level[np.newaxis])
    real = float(np.mean([len(payload) for payload in payloads]))
    assert abs(real - said) < 0.1 * said + 30  # a header, and the states of the coder


def test_training_makes_it_cheaper_than_knowing_nothing() -> None:
    whole = rounded(_latents(), 1.0)
    prior = _trained()
    with torch.no_grad():
        untrained = float(Prior(3, hidden=12).bits(whole, whole, 1.0).mean())
        trained = float(prior.bits(whole, whole, 1.0).mean())
    assert trained < untrained - 0.5


def test_rounding_saturates_and_lets_gradients_pass() -> None:
    latents = torch.tensor([[-90.0, -1.4, 0.6, 200.0]], requires_grad=True)
    whole = rounded(latents, 1.0)
    assert whole.tolist() == [[LOWEST, -1, 1, HIGHEST]]
    whole.sum().backward()  # type: ignore[no-untyped-call]
    assert latents.grad is not None
    assert latents.grad.tolist() == [[1, 1, 1, 1]]


def test_noise_is_at_most_half_a_step() -> None:
    latents = torch.linspace(-3, 3, 500)
    apart = noisy(latents, 0.5) - latents / 0.5
    assert float(apart.abs().max()) <= 0.5
    assert float(apart.std()) > 0.2
