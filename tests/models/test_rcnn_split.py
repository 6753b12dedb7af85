"""R-CNNs with random weights: head and tail are the whole, and a filtered picture stops early."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip(
    "torchvision", reason="needs torchvision: pip install 'headtail[rcnn]'", exc_type=ImportError
)

from headtail_models.bottleneck.block import Bottleneck
from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.bottleneck.quantise import AffineAtTest
from headtail_models.rcnn.detector import (
    VARIANTS,
    Variant,
    backbone,
    block_of,
    injected,
    untrained,
)
from headtail_models.rcnn.errors import BackboneError, OnePictureError
from headtail_models.rcnn.neural_filter import NeuralFilter
from headtail_models.rcnn.split import RcnnHead, SplitRcnn

torch.set_num_threads(1)


@cache
def tiny(variant: Variant) -> Any:
    torch.manual_seed(1)
    return untrained(
        variant,
        min_size=96,
        max_size=160,
        box_detections_per_img=5,
        rpn_post_nms_top_n_test=20,
        **({} if variant == "keypoint" else {"num_classes": 3}),
    )


def pictures() -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [
        torch.rand(3, 120, 160, generator=generator),
        torch.rand(3, 90, 70, generator=generator),
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("bits", [None, 8])
def test_head_and_tail_are_the_whole(variant: Variant, bits: int | None) -> None:
    wire = None if bits is None else AffineAtTest(bits)
    student = injected(tiny(variant), hnd_ghnd(3, wire=wire)).eval()
    split = SplitRcnn(student)

    with torch.no_grad():
        expected = student(pictures())
        found = split(pictures())
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        assert len(one["boxes"]) > 0
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=0, atol=0)


def test_an_identity_in_place_of_a_layer_leaves_the_detector_as_it_was() -> None:
    detector = tiny("faster")
    layer = backbone(detector)["layer1"]
    split = SplitRcnn(injected(detector, Bottleneck(layer, nn.Identity(), channels=256)))

    with torch.no_grad():
        for one, other in zip(split(pictures()), detector(pictures()), strict=True):
            torch.testing.assert_close(one["boxes"], other["boxes"], rtol=0, atol=0)


def test_only_sizes_cross_beside_the_tensor() -> None:
    head = RcnnHead(injected(tiny("faster"), hnd_ghnd(3)))
    with torch.no_grad():
        crossing = head(pictures()[:1])

    assert crossing is not None
    assert crossing.original == ((120, 160),)
    assert crossing.resized == ((96, 128),)
    assert crossing.padded == (96, 128)
    assert crossing.tensor.shape == (1, 3, 96 // 4 + 4, 128 // 4 + 4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_filtered_picture_costs_no_encoder_and_sends_nothing(variant: Variant) -> None:
    student = injected(tiny(variant), hnd_ghnd(3))
    ran: list[str] = []
    block_of(student).encoder.register_forward_hook(lambda *_: ran.append("encoder"))
    torch.manual_seed(0)
    split = SplitRcnn(student, neural_filter=NeuralFilter(), threshold=1.0)
    split.tail.register_forward_hook(lambda *_: ran.append("tail"))
    one = pictures()[:1]

    with torch.no_grad():
        (answer,) = split(one)
        assert ran == []
        assert split.head(one) is None
        split.head.threshold = 0.0
        (passed,) = split(one)
    assert ran == ["encoder", "tail"]
    assert answer.keys() == passed.keys()
    for name in answer:
        assert answer[name].shape == (0, *passed[name].shape[1:])
        assert answer[name].dtype == passed[name].dtype


def test_a_filter_takes_one_picture_at_a_time() -> None:
    head = RcnnHead(injected(tiny("faster"), hnd_ghnd(3)), neural_filter=NeuralFilter())
    with pytest.raises(OnePictureError, match="2 pictures"), torch.no_grad():
        head(pictures())


def test_detectors_that_do_not_fit_are_refused() -> None:
    detector = copy.deepcopy(tiny("faster"))
    with pytest.raises(BackboneError, match="no bottleneck"):
        SplitRcnn(detector)
    del detector.backbone.body["layer1"]
    with pytest.raises(BackboneError, match="has the layers"):
        injected(detector, hnd_ghnd(3))


def test_the_detector_itself_stays_as_it_was() -> None:
    detector = tiny("faster")
    before = {name: value.clone() for name, value in detector.state_dict().items()}
    injected(detector, hnd_ghnd(3))

    assert detector.state_dict().keys() == before.keys()
    assert not isinstance(backbone(detector)["layer1"], Bottleneck)
