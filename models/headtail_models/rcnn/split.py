"""An R-CNN in two: the head on the device, the tail on the server.

The tail needs no picture. Region proposals only ask for the size of the padded batch and of the
pictures in it, so a tensor without storage stands for the batch.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.image_list import ImageList

from headtail_models.rcnn.crossing import Crossing, Size
from headtail_models.rcnn.detector import LATER, REPLACED, STEM, backbone, block_of, feature_names
from headtail_models.rcnn.errors import OnePictureError
from headtail_models.rcnn.neural_filter import NeuralFilter

Detections = dict[str, Tensor]
"""As torchvision gives them: boxes (n, 4), labels (n,), scores (n,), and masks (n, 1, H, W) or
keypoints (n, 17, 3) and keypoints_scores (n, 17)."""

_THRESHOLD: Final = 0.01


class RcnnHead(nn.Module):
    """Resizing and normalising, layer0, filter, encoder. The filter runs before the encoder, so
    that a filtered picture costs no more than layer0 and the filter. Raises BackboneError."""

    def __init__(
        self,
        detector: GeneralizedRCNN,
        *,
        neural_filter: NeuralFilter | None = None,
        threshold: float = _THRESHOLD,
    ) -> None:
        super().__init__()
        body = backbone(detector)
        self.transform = detector.transform
        self.stem = nn.Sequential(OrderedDict((name, body[name]) for name in STEM))
        self.neural_filter = neural_filter
        self.encoder = block_of(detector).encoder
        self.threshold = threshold
        self.eval()

    def forward(self, pictures: Sequence[Tensor]) -> Crossing | None:
        """Of pictures (3, H, W) in 0 .. 1; None if the filter sees nothing. Raises
        OnePictureError."""
        images, _ = self.transform(list(pictures))
        features = self.stem(images.tensors)
        if self.neural_filter is not None:
            if len(pictures) != 1:
                raise OnePictureError(f"{len(pictures)} pictures at once")
            if float(self.neural_filter.something(features)) < self.threshold:
                return None
        height, width = images.tensors.shape[-2:]
        return Crossing(
            tensor=self.encoder(features),
            padded=(height, width),
            resized=tuple(_size(size) for size in images.image_sizes),
            original=tuple(_size(picture.shape[-2:]) for picture in pictures),
        )


class RcnnTail(nn.Module):
    """Decoder, layer2 to layer4, FPN, region proposals, heads. Raises BackboneError."""

    def __init__(self, detector: GeneralizedRCNN) -> None:
        super().__init__()
        body = backbone(detector)
        self.decoder = block_of(detector).decoder
        self.layers = nn.ModuleDict({name: body[name] for name in LATER})
        self.fpn = detector.backbone.fpn
        self.rpn = detector.rpn
        self.roi_heads = detector.roi_heads
        self.transform = detector.transform
        self._names = feature_names(detector)
        self.eval()

    def forward(self, crossing: Crossing) -> list[Detections]:
        """In pixels of the original pictures."""
        tensor = self.decoder(crossing.tensor)
        features = OrderedDict([(self._names[REPLACED], tensor)])
        for name, layer in self.layers.items():
            tensor = layer(tensor)
            features[self._names[name]] = tensor
        pyramid = self.fpn(features)
        shape = torch.empty(len(crossing.resized), 3, *crossing.padded, device="meta")
        sizes = list(crossing.resized)
        proposals, _ = self.rpn(ImageList(shape, sizes), pyramid)
        found, _ = self.roi_heads(pyramid, proposals, sizes)
        detections: list[Detections] = self.transform.postprocess(
            found, sizes, list(crossing.original)
        )
        return detections

    def nothing(self, size: Size) -> Detections:
        """The answer for a picture in which nothing is."""
        empty = {
            "boxes": torch.zeros(0, 4),
            "labels": torch.zeros(0, dtype=torch.int64),
            "scores": torch.zeros(0),
        }
        if self.roi_heads.has_mask():
            empty["masks"] = torch.zeros(0, 1, *size)
        if self.roi_heads.has_keypoint():
            empty["keypoints"] = torch.zeros(0, 17, 3)
            empty["keypoints_scores"] = torch.zeros(0, 17)
        return empty


class SplitRcnn(nn.Module):
    """Head, what the codec will do to the tensor (the bottleneck's `wire`), and tail."""

    def __init__(
        self,
        detector: GeneralizedRCNN,
        *,
        neural_filter: NeuralFilter | None = None,
        threshold: float = _THRESHOLD,
    ) -> None:
        super().__init__()
        self.head = RcnnHead(detector, neural_filter=neural_filter, threshold=threshold)
        self.wire = block_of(detector).wire
        self.tail = RcnnTail(detector)
        self.eval()

    def forward(self, pictures: Sequence[Tensor]) -> list[Detections]:
        crossing = self.head(pictures)
        if crossing is None:
            return [self.tail.nothing(_size(picture.shape[-2:])) for picture in pictures]
        carried = Crossing(
            tensor=self.wire(crossing.tensor),
            padded=crossing.padded,
            resized=crossing.resized,
            original=crossing.original,
        )
        detections: list[Detections] = self.tail(carried)
        return detections


def _size(size: Sequence[int]) -> Size:
    height, width = size
    return int(height), int(width)
