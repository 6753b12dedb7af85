"""Quantisation inside a network, divisive normalisation, and the factorised prior."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.rans import Alphabet, LevelCoder, RansCodec, StepLevels
from headtail_models.bottleneck.entropic_student import entropic_student
from headtail_models.bottleneck.errors import BottleneckError
from headtail_models.bottleneck.factorised import FactorisedPrior
from headtail_models.bottleneck.gdn import GDN
from headtail_models.bottleneck.losses import rate_distortion
from headtail_models.bottleneck.quantise import AffineAtTest, StraightThrough, UniformNoise

torch.set_num_threads(1)


def test_rounding_lets_gradients_pass() -> None:
    values = torch.tensor([0.2, 0.8, -1.3], requires_grad=True)
    rounded = StraightThrough(0.5)(values)
    rounded.sum().backward()

    assert rounded.tolist() == [0.0, 1.0, -1.5]
    assert values.grad is not None
    assert values.grad.tolist() == [1.0, 1.0, 1.0]


def test_noise_in_training_and_rounding_at_test() -> None:
    torch.manual_seed(0)
    noise = UniformNoise(2.0)
    zeros = torch.zeros(10_000)

    drawn = noise.train()(zeros)
    assert drawn.abs().max() <= 1.0
    assert drawn.std().item() == pytest.approx(2 / 12**0.5, rel=0.02)
    assert noise.eval()(torch.tensor([2.9, 3.1])).tolist() == [2.0, 4.0]


@settings(deadline=None, max_examples=40)
@given(low=st.floats(-100, 100), width=st.floats(0, 100), bits=st.integers(1, 16))
def test_affine_is_off_by_half_a_step_at_most(low: float, width: float, bits: int) -> None:
    generator = torch.Generator().manual_seed(3)
    values = low + width * torch.rand(2, 3, 4, generator=generator)
    quantise = AffineAtTest(bits)

    found = quantise.eval()(values)
    axes = (1, 2)
    step = (values.amax(axes) - values.amin(axes)) / (2**bits - 1)
    worst = (found - values).abs().amax(axes)
    assert (worst <= step / 2 + 1e-4).all()
    assert quantise.train()(values) is values
    assert all(len(one.unique()) <= 2**bits for one in found)


def test_affine_keeps_a_constant_tensor() -> None:
    constant = torch.full((1, 2, 3), 7.25)

    torch.testing.assert_close(AffineAtTest().eval()(constant), constant)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(BottleneckError):
        UniformNoise(0.0)
    with pytest.raises(BottleneckError):
        StraightThrough(float("nan"))
    with pytest.raises(BottleneckError):
        AffineAtTest(0)


def test_gdn_against_the_formula_and_its_inverse() -> None:
    torch.manual_seed(0)
    layer, inverse = GDN(3), GDN(3, inverse=True)
    values = torch.randn(2, 3, 4, 5)
    beta = layer.beta_root.square() + 1e-6
    gamma = layer.gamma_root.square()
    pool = beta[:, None, None] + torch.einsum("ij,njhw->nihw", gamma, values.abs())

    torch.testing.assert_close(layer(values), values / pool)
    torch.testing.assert_close(inverse(values), values * pool)
    assert "inverse=True" in repr(inverse)


def test_likelihoods_of_all_levels_sum_to_one() -> None:
    torch.manual_seed(0)
    prior = FactorisedPrior(4)
    shares = prior.likelihoods(Alphabet(low=-128, count=256))

    assert shares.shape == (4, 256)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-3)


def test_the_prior_learns_and_its_tables_code_as_it_says() -> None:
    torch.manual_seed(0)
    spread = torch.tensor([0.5, 4.0])[:, None, None]
    latents = (torch.randn(4, 2, 24, 24) * spread).round()
    prior = FactorisedPrior(2)
    before = prior.bits(latents).mean().item()
    optimiser = torch.optim.Adam(prior.parameters(), lr=0.03)
    for _ in range(100):
        optimiser.zero_grad()
        noisy = latents + torch.rand_like(latents) - 0.5
        prior.bits(noisy).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    bits = prior.bits(latents).detach()
    assert bits.shape == latents.shape
    _, counts = np.unique(latents[:, 1].numpy(), return_counts=True)
    shares = counts / counts.sum()
    entropy = float(-(shares * np.log2(shares)).sum())
    assert bits[:, 1].mean().item() == pytest.approx(entropy, rel=0.05)
    assert bits.mean().item() < before / 1.3

    alphabet = Alphabet(low=-24, count=49)
    model = prior.coding_model(alphabet)
    codec = RansCodec(StepLevels(steps=np.ones(2, dtype=np.float32), alphabet=alphabet), model)
    payload = codec.encode(latents.numpy())
    np.testing.assert_array_equal(codec.decode(payload, tuple(latents.shape)), latents.numpy())
    assert 8 * len(payload) == pytest.approx(bits.sum().item(), rel=0.04)
    assert LevelCoder(model).max_bytes(tuple(latents.shape)) >= len(payload)


def test_a_prior_for_too_many_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="64"):
        FactorisedPrior(2).coding_model(Alphabet(low=-64, count=128))
    with pytest.raises(ValueError, match="256"):
        FactorisedPrior(257).coding_model(Alphabet(low=-8, count=16))


def test_the_entropic_student_trains_for_rate() -> None:
    torch.manual_seed(0)
    block = entropic_student(4, width=8, outputs=8)
    assert block.prior is not None
    pictures, target = torch.randn(2, 3, 32, 32), torch.randn(2, 8, 8, 8)
    optimiser = torch.optim.Adam(block.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        sent = block.wire(block.encoder(pictures))
        distortion = (block.decoder(sent) - target).square().sum()
        loss = rate_distortion(distortion, block.prior.bits(sent), beta=0.1)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())

    assert losses[-1] < 0.8 * losses[0]
