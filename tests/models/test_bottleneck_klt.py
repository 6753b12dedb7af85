"""The weighted transform: exact with all its latents, the best linear code with fewer."""

import pytest
import torch
from torch.nn import functional

from headtail_models.bottleneck import klt


def _features(count: int = 6, channels: int = 5, side: int = 8) -> torch.Tensor:
    """Smooth, correlated, with a mean."""
    torch.manual_seed(0)
    coarse = torch.randn(count, channels, side // 4, side // 4)
    smooth = functional.interpolate(coarse, size=(side, side), mode="bilinear")
    mixed = torch.einsum("cd,ndhw->nchw", torch.randn(channels, channels), smooth)
    return mixed + 0.2 * torch.randn_like(mixed) + 3.0


def _there_and_back(transform: klt.Klt, features: torch.Tensor) -> torch.Tensor:
    latents = functional.conv2d(features, transform.analysis, transform.offset, stride=2)
    return functional.conv_transpose2d(latents, transform.synthesis, transform.mean, stride=2)


def _felt(error: torch.Tensor, metric: torch.Tensor) -> float:
    return float(torch.einsum("nchw,cd,ndhw->", error.double(), metric, error.double()))


def test_sensitivity_is_what_a_convolution_feels() -> None:
    kernel = torch.randn(7, 5, 3, 3)
    metric = klt.sensitivity(kernel)
    # An error in one value alone meets each tap once.
    error = torch.zeros(1, 5, 9, 9)
    error[0, :, 4, 4] = torch.randn(5)
    response = functional.conv2d(error, kernel, padding=1).double().square().sum()
    assert _felt(error, metric) == pytest.approx(float(response), rel=1e-4)


def test_with_all_latents_nothing_is_lost() -> None:
    features = _features()
    transform = klt.fit(features, torch.eye(5), 20)
    assert torch.allclose(_there_and_back(transform, features), features, atol=1e-4)
    assert torch.allclose(_there_and_back(transform.scaled(7.0), features), features, atol=1e-4)


def test_latents_come_in_order_and_without_correlation() -> None:
    features = _features(count=40)
    transform = klt.fit(features, klt.sensitivity(torch.randn(4, 5, 3, 3)), 6)
    latents = functional.conv2d(features, transform.analysis, transform.offset, stride=2)
    flat = latents.transpose(0, 1).flatten(1)
    covariance = flat @ flat.T / flat.shape[1]
    assert torch.allclose(covariance.diagonal(), transform.variances, rtol=1e-3)
    assert (transform.variances.diff() <= 0).all()
    off = covariance - torch.diag(covariance.diagonal())
    assert float(off.abs().max()) < 1e-3 * float(covariance.max())


def test_more_latents_lose_less_and_the_metric_matters() -> None:
    features = _features(count=40)
    metric = klt.sensitivity(torch.randn(3, 5, 3, 3))
    lost = [
        _felt(_there_and_back(klt.fit(features, metric, count), features) - features, metric)
        for count in (2, 4, 8)
    ]
    assert lost[0] > lost[1] > lost[2]
    plain = klt.fit(features, torch.eye(5), 4)
    assert lost[1] < _felt(_there_and_back(plain, features) - features, metric)


def test_encoder_and_decoder_begin_at_the_transform() -> None:
    features = _features()
    transform = klt.fit(features, torch.eye(5), 6)
    encoder, decoder = klt.KltEncoder(5, 6, width=4), klt.KltDecoder(5, 6, width=4, blocks=2)
    encoder.start(transform)
    decoder.start(transform)
    with torch.no_grad():
        latents = encoder(features)
        assert latents.shape == (6, 6, 4, 4)
        assert torch.allclose(decoder(latents), _there_and_back(transform, features), atol=1e-5)


def test_too_many_latents_are_refused() -> None:
    with pytest.raises(ValueError, match="21 latents of 20"):
        klt.fit(_features(), torch.eye(5), 21)


def test_the_groups_hold_every_parameter_once() -> None:
    encoder = klt.KltEncoder(6, 4, width=5)
    decoder = klt.KltDecoder(6, 4, width=5, blocks=2)
    found = klt.groups(encoder, decoder)
    assert set(found) == {"klt", "encoder", "decoder"}
    numbers = [id(parameter) for group in found.values() for parameter in group]
    everything = [*encoder.parameters(), *decoder.parameters()]
    assert sorted(numbers) == sorted(id(parameter) for parameter in everything)
    assert {id(one) for one in found["klt"]} == {
        id(one) for part in (encoder.linear, decoder.linear) for one in part.parameters()
    }
