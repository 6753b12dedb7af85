"""YAMNet with random weights that keep the values of each layer about as large."""

import numpy as np

from headtail_models.zoo.yamnet_layers import (
    CLASSES,
    LAYERS,
    TOP,
    Convolution,
    Yamnet,
    convolutions,
)


def random_yamnet(seed: int = 0) -> Yamnet:
    random = np.random.default_rng(seed)
    layers: list[list[Convolution]] = [[] for _ in range(LAYERS)]
    for number, size, stride, groups in convolutions():
        spread = np.sqrt(2 / np.prod(size[1:]))
        layers[number - 1].append(
            Convolution(
                kernel=(spread * random.normal(size=size)).astype(np.float32),
                bias=(0.1 * random.normal(size=size[0])).astype(np.float32),
                stride=stride,
                groups=groups,
            )
        )
    return Yamnet(
        layers=tuple(map(tuple, layers)),
        classifier=(random.normal(size=(CLASSES, TOP)) / 32).astype(np.float32),
        bias=random.normal(size=CLASSES).astype(np.float32),
    )
