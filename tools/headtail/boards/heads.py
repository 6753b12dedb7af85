"""Heads to measure kernels with, of drawn weights: what they compute means nothing."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import HeadGraph, LayerKind, Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.sketch import GraphDrawing

RELU: Final = (0.0, np.inf)
_WORDS: Final = 12


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


def _exported(graph: HeadGraph) -> Program:
    samples = np.random.default_rng(0).normal(size=(8, *graph.input_shape)).astype(np.float32)
    return export_head(graph, samples).program
