"""What a detector finds, and what it sends for that."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from headtail_models.rcnn.coco import CocoPicture
from headtail_models.rcnn.ghnd_job import box_precision
from headtail_models.rcnn.split import SplitRcnn
from headtail_models.vision.average_precision import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`bytes_a_picture` before any entropy coding, over all pictures, filtered ones too; the file
    itself for a detector that is not split. `sent` is the share of pictures that were sent."""

    name: str
    precision: Precision
    bytes_a_picture: float
    sent: float


def measure(
    name: str,
    detector: nn.Module,
    pictures: Sequence[CocoPicture],
    *,
    bits: int = 8,
    device: str = "cpu",
) -> Row:
    """`bits` of a value that crosses."""
    detector.to(device).eval()
    sizes: list[int] = []
    if isinstance(detector, SplitRcnn):
        handle = detector.tail.register_forward_pre_hook(
            lambda _, inputs: sizes.append(inputs[0].tensor.numel() * bits // 8)
        )
        precision = box_precision(detector, pictures, device=device)
        handle.remove()
    else:
        precision = box_precision(detector, pictures, device=device)
        sizes = [picture.path.stat().st_size for picture in pictures]
    count = max(1, len(pictures))
    return Row(
        name=name,
        precision=precision,
        bytes_a_picture=sum(sizes) / count,
        sent=len(sizes) / count,
    )
