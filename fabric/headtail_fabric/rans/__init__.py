"""Entropy coding of quantised tensors: rANS with contexts, in numpy and in C, the same everywhere.

fit_tables.fit(levels, alphabet) -> CodingModel    on calibration tensors; into the bundle
LevelCoder(model).encode(levels) -> payload        integers
RansCodec(quantiser, model)                        float tensors: a `TensorCodec`
"""

from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.codec import RansCodec
from headtail_fabric.rans.coder import LevelCoder
from headtail_fabric.rans.levels import AffineLevels, LevelQuantiser, StepLevels
from headtail_fabric.rans.model import CodingModel

__all__ = [
    "AffineLevels",
    "Alphabet",
    "CodingModel",
    "LevelCoder",
    "LevelQuantiser",
    "RansCodec",
    "StepLevels",
]
