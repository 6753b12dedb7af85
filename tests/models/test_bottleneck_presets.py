"""Shapes, parameters and multiply-adds of the published bottlenecks."""

import pytest
import torch
from torch import nn

from headtail_models.bottleneck import PRESETS, inject, preset
from headtail_models.bottleneck.bottlefit import Version, bottlefit
from headtail_models.bottleneck.cost import cost, parameter_count
from headtail_models.bottleneck.entropic_student import entropic_student
from headtail_models.bottleneck.errors import BlockSizeError, UnknownPresetError
from headtail_models.bottleneck.gdn import GDN
from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.nets.resnet import resnet


def shape(module: nn.Module, *size: int) -> tuple[int, ...]:
    with torch.no_grad():
        return tuple(module.to("meta").eval()(torch.empty(*size, device="meta")).shape)


def test_the_rcnn_block_has_the_published_size() -> None:
    block = hnd_ghnd(3)

    assert parameter_count(block.encoder) == 148_992
    assert parameter_count(block.decoder) == 428_166


def test_the_rcnn_block_costs_what_was_published_at_800_by_1216() -> None:
    block = hnd_ghnd(3)
    stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)

    assert cost(stem, 1, 3, 800, 1216).macs / 1e9 == pytest.approx(2.29, abs=0.005)
    assert cost(block.encoder, 1, 64, 200, 304).macs / 1e9 == pytest.approx(9.19, abs=0.005)
    assert cost(block.decoder, 1, 3, 204, 308).macs / 1e9 == pytest.approx(26.0, abs=0.05)


@pytest.mark.parametrize("channels", [3, 6, 9, 12])
def test_the_rcnn_block_keeps_the_stride(channels: int) -> None:
    block = hnd_ghnd(channels)

    assert shape(block.encoder, 1, 64, 200, 304) == (1, channels, 204, 308)
    assert shape(block.decoder, 1, channels, 204, 308) == (1, 256, 200, 304)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (2, 4), (3, 1), (3, 4), (3, 8), (5, 16)])
def test_the_rcnn_block_comes_back_to_its_size_at_other_kernels_and_strides(
    kernel: int, stride: int
) -> None:
    block = hnd_ghnd(5, inputs=8, outputs=24, width=8, kernel=kernel, stride=stride)

    assert shape(block, 2, 8, 32, 48) == (2, 24, 32, 48)
    crossing = shape(block.encoder, 2, 8, 32, 48)
    grown = 4 * (kernel - 1)
    assert crossing == (2, 5, (32 + grown) // stride, (48 + grown) // stride)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 3), (1, 1), (2, 8), (2, 0)])
def test_a_block_that_would_not_come_back_is_refused(kernel: int, stride: int) -> None:
    with pytest.raises(BlockSizeError):
        hnd_ghnd(3, kernel=kernel, stride=stride)


def test_the_bottlefit_head_has_the_published_size() -> None:
    assert parameter_count(bottlefit(3).encoder) == 10_432


@pytest.mark.parametrize(("version", "crossing"), [(1, (56, 56)), (2, (29, 29)), (3, (15, 15))])
@pytest.mark.parametrize("channels", [1, 3, 12])
def test_bottlefit_gives_layer2(version: Version, crossing: tuple[int, int], channels: int) -> None:
    block = bottlefit(channels, version=version)

    assert shape(block.encoder, 1, 3, 224, 224) == (1, channels, *crossing)
    assert shape(block.decoder, 1, channels, *crossing) == (1, 512, 28, 28)


def test_the_entropic_encoder_has_the_published_size() -> None:
    encoder = entropic_student().encoder
    found = cost(encoder, 1, 3, 224, 224)

    normal = {name for name, module in encoder.named_modules() if isinstance(module, GDN)}
    convolutions = sum(macs for name, macs in found.by_module.items() if name not in normal)
    assert found.parameters == 138_672
    assert convolutions / 1e6 == pytest.approx(466, abs=0.6)
    assert (found.macs - convolutions) / 1e6 == pytest.approx(123, abs=0.6)


def test_the_entropic_student_gives_layer1() -> None:
    block = entropic_student()

    assert shape(block.encoder, 1, 3, 224, 224) == (1, 24, 55, 55)
    assert shape(block.decoder, 1, 24, 55, 55) == (1, 256, 56, 56)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_each_preset_fits_its_place_in_a_resnet(name: str) -> None:
    entry = preset(name)

    with torch.device("meta"):
        network, block = resnet(50, classes=7), entry.build(entry.published[0])
    split = inject(network, replaces=entry.replaces, bottleneck=block, input_shape=(3, 96, 64))

    assert shape(split, 1, 3, 96, 64) == (1, 7)


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownPresetError, match="bottlefit"):
        preset("bottelfit")
