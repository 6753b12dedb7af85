"""Entropy coding for cuts that a bundle has no coder for: fitted on the calibration split."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from headtail_fabric.rans import AffineLevels, RansCodec, fit_tables
from headtail_models.bundle import Bundle
from headtail_models.rate.cut import NATURAL, Crossing, CutTensor
from headtail_models.rate.method import Method
from headtail_models.rate.samples import Sample

BASE: Final = "q4"
_BITS: Final = 4
_CHOOSING: Final = 8
"""Samples on which the cut is chosen."""


def fitted_method(
    bundle: Bundle, crossings: Sequence[Crossing], samples: Iterable[Sample]
) -> Method | None:
    """The natural cut with the fewest bytes at 4 bits, entropy-coded with a table context.

    Cut and tables are found on `samples`. None where no cut has a table for 4 bits.
    """
    taken = iter(samples)
    few = list(islice(taken, _CHOOSING))
    zipped = [one for one in crossings if f"{BASE}+zstd" in bundle.cut(one.name).codecs]
    if not zipped or not few:
        return None
    chosen = min(zipped, key=lambda one: _mean_bytes(bundle, one, few))
    levels = AffineLevels(bundle.quantiser(chosen.name, BASE), bits=_BITS)
    tensors = [levels.levels(chosen.cross(sample.frame)) for sample in (*few, *taken)]
    model = fit_tables.fit(tensors, levels.alphabet)
    return CutTensor(
        crossing=chosen,
        codec=RansCodec(levels, model),
        family=f"{NATURAL}, {BASE}, rans",
        setting=chosen.name,
    )


def _mean_bytes(bundle: Bundle, crossing: Crossing, samples: Sequence[Sample]) -> float:
    codec = bundle.codecs(crossing.name).new(f"{BASE}+zstd")
    sizes = [memoryview(codec.encode(crossing.cross(one.frame))).nbytes for one in samples]
    return float(np.mean(sizes))
