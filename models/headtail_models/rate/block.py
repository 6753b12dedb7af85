"""Published blocks beside a bundle's own cuts: stages that were trained and exported apart."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from headtail_fabric.codec.affine import AffineCodec
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.rans import AffineLevels, RansCodec, fit_tables
from headtail_models.bundle.manifest import QuantiserTable
from headtail_models.entrance import Entrance
from headtail_models.rate.cut import Crossing, CutTensor
from headtail_models.rate.method import Method, whole_network
from headtail_models.rate.samples import Sample
from headtail_models.stage import OnnxStage

PUBLISHED: Final = "published blocks"
"""How the families of these blocks are called."""
_PUBLISHED_BITS: Final = 8
_CODED_BITS: Final = (6, 5, 4, 3, 2)


def block_crossing(
    name: str, head: Path, tail: Path, *, entrance: Entrance, threads: int = 1
) -> Crossing:
    """Of the stages of a block. Raises StageLoadError."""
    device = OnnxStage(head, threads=threads)
    (output,) = device.outputs
    run = whole_network(device)
    return Crossing(
        name,
        head=lambda tensor: run(tensor)[output.name],
        tail=whole_network(OnnxStage(tail, threads=threads)),
        entrance=entrance,
        origin=hashlib.sha256(head.read_bytes() + tail.read_bytes()).hexdigest(),
    )


def block_methods(crossings: Sequence[Crossing], samples: Iterable[Sample]) -> Iterator[Method]:
    """All blocks at 8 bits without any entropy code, as published, which make a curve; and each
    with an entropy code of ours at fewer bits, a curve of its own.

    Ranges and tables are found on `samples`.
    """
    known = list(samples)
    for crossing in crossings:
        tensors = [crossing.cross(sample.frame) for sample in known]
        quantiser = ranges(tensors)
        yield CutTensor(
            crossing=crossing,
            codec=AffineCodec(bits=_PUBLISHED_BITS, quantiser=quantiser),
            family=f"{PUBLISHED}, q{_PUBLISHED_BITS}",
            setting=crossing.name,
        )
        for bits in _CODED_BITS:
            levels = AffineLevels(quantiser, bits=bits)
            model = fit_tables.fit([levels.levels(tensor) for tensor in tensors], levels.alphabet)
            yield CutTensor(
                crossing=crossing,
                codec=RansCodec(levels, model),
                family=f"{PUBLISHED}, {crossing.name}, rans",
                setting=f"{bits} bits",
            )


def ranges(tensors: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]) -> Quantiser:
    """From the least to the largest value of each channel, of tensors (1, C, ...)."""
    flat = np.concatenate([np.moveaxis(one, 1, 0).reshape(one.shape[1], -1) for one in tensors], 1)
    return QuantiserTable(
        low=tuple(flat.min(axis=1).tolist()), high=tuple(flat.max(axis=1).tolist())
    ).quantiser()
