"""Heads to measure with: of drawn weights, which compute nothing that means anything, and the
released ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from headtail_models import zoo
from headtail_models.bundle import open_bundle
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import HeadGraph, LayerKind, Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.samples import read_npy
from headtail_models.mcu.sketch import GraphDrawing

RELU: Final = (0.0, np.inf)
RELEASED: Final = ("spoken-digits", "motion")
_WORDS: Final = 12
_BITS: Final = 4


def keyword_spotter() -> Program:
    """The DS-CNN of MLPerf Tiny's keyword spotting (Banbury et al., 2021): 49x10 MFCC, 64 channels,
    2.66 million multiply-adds."""
    drawing = GraphDrawing(Shape(49, 10, 1))
    drawing.convolution(64, (10, 4), stride=(2, 2), pads=(4, 1, 5, 1), clamp=RELU)
    for _ in range(4):
        drawing.depthwise((3, 3), pads=(1, 1, 1, 1), clamp=RELU)
        drawing.convolution(64, clamp=RELU)
    drawing.pool(LayerKind.AVERAGE_POOL, (drawing.shape.h, drawing.shape.w))
    drawing.dense(_WORDS)
    return _exported(drawing.end())


def dense_layers() -> Sequence[Program]:
    """Pointwise convolutions that differ in pixels, input and output channels."""
    return [
        _exported(GraphDrawing(Shape(side, 4, inputs)).convolution(outputs, clamp=RELU).end())
        for side, inputs, outputs in (
            (4, 32, 32),
            (4, 64, 32),
            (4, 128, 32),
            (4, 64, 16),
            (8, 64, 32),
        )
    ]


def depthwise_layers() -> Sequence[Program]:
    """Of windows of 3x3 and others, which have another loop, and of more and fewer rows."""
    return [
        _exported(GraphDrawing(Shape(rows, 5, 64)).depthwise(kernel, pads=pads, clamp=RELU).end())
        for rows, kernel, pads in (
            (5, (3, 3), (1, 1, 1, 1)),
            (10, (3, 3), (1, 1, 1, 1)),
        )
    ]


def released(name: str, folder: Path) -> Program:
    """One of `RELEASED` as boards have it, 4 bits a value; its bundle goes to `folder`."""
    bundle = open_bundle(zoo.build(name, folder))
    cut = read_cut(bundle, bundle.manifest.default_cut, bits=_BITS)
    return export_head(
        cut.graph,
        read_npy(bundle.path / SAMPLES, cut.graph.input_shape),
        bits=cut.bits,
        exit=cut.exit,
        ranges=cut.ranges,
        preparation=cut.preparation,
    ).program


def _exported(graph: HeadGraph) -> Program:
    samples = np.random.default_rng(0).normal(size=(8, *graph.input_shape)).astype(np.float32)
    return export_head(graph, samples).program
