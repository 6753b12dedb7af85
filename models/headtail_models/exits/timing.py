"""What skipping saves: processor time of the segments that frames really needed."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle import Bundle
from headtail_models.bundle.cut_rules import OFF
from headtail_models.bundle.manifest import Cut
from headtail_models.head_chain import GateSettings, HeadChain

_WARM: Final = 5
"""Frames run before the clock starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One operating point run stage by stage, means a frame: processor time in ms of the device's
    part with its code, and of all segments on one machine without a code; payload bytes, none for
    those that left."""

    point: str
    early: float
    device_macs: float
    device_ms: float
    local_ms: float
    mean_bytes: float


def time_points(
    bundle: Bundle, cut: Cut, inputs: NDArray[np.float32], *, threads: int
) -> tuple[float, list[Timed]]:
    """Processor ms a frame of the whole network in one stage; and every operating point.

    The points take turns frame by frame, so that what else the machine does hits all alike.
    """
    open_stage = partial(bundle.open_stage, threads=threads)
    whole, tail = open_stage(bundle.full()), open_stage(cut.tail)
    codec = bundle.codecs(cut.name).new(bundle.manifest.default_codec)
    names = [OFF, *(point.name for point in reversed(cut.exits()[0].points))]
    chains = [HeadChain(cut, open_stage, settings=GateSettings(exit_point=name)) for name in names]
    takes, crosses = bundle.full().inputs[0].name, cut.tensor.name
    spent = np.zeros((len(names), 3))  # head chain, code, tail
    sums = np.zeros((len(names), 3))  # left early, multiply-adds, bytes
    one_piece = 0.0
    clock = time.process_time
    for number in range(-_WARM, len(inputs)):
        frame = inputs[max(number, 0)][np.newaxis]
        if number == 0:
            spent[:], sums[:], one_piece = 0, 0, 0.0
        start = clock()
        whole.run({takes: frame})
        one_piece += clock() - start
        for row, chain in enumerate(chains):
            begun = clock()
            out = chain.run(frame)
            through = coded = ended = clock()
            sent = 0
            if out.tensor is not None:
                sent = len(codec.encode(out.tensor))
                coded = clock()
                tail.run({crosses: out.tensor})
                ended = clock()
            spent[row] += through - begun, coded - through, ended - coded
            sums[row] += out.tensor is None, out.macs, sent
    count = len(inputs)
    return 1e3 * one_piece / count, [
        Timed(
            point=name,
            early=left / count,
            device_macs=macs / count,
            device_ms=1e3 * (head + code) / count,
            local_ms=1e3 * (head + rest) / count,
            mean_bytes=sent / count,
        )
        for name, (head, code, rest), (left, macs, sent) in zip(names, spent, sums, strict=True)
    ]
