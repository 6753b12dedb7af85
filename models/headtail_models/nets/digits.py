"""The network of spoken digits: on the board the first half of the DS-CNN of MLPerf Tiny's keyword
spotting (Banbury et al., "MLPerf Tiny Benchmark", 2021; Zhang et al., "Hello Edge", 2017).

    (1, 49, 10) -> 10x4 convolution, stride 2 -> two separable blocks -> (64, 25, 5)
    exit: a block of stride 2, mean, dense       code: 3x3 convolution, stride 2 -> (8, 13, 3)

The helper is the other half of that DS-CNN.
"""

from typing import Final

from torch import nn

from headtail_models.nets.board_split import BoardSplit, Code, Separable, tail

PATCH: Final = 49
BANDS: Final = 10
_KERNEL: Final = (3, 3)


def digits_net(
    *,
    classes: int,
    width: int = 64,
    code: int = 8,
    tail_width: int = 64,
    tail_blocks: int = 2,
    dropout: float = 0.2,
) -> BoardSplit:
    """Input (N, 1, 49, 10): log-mel spectra."""

    def answer() -> list[nn.Module]:
        last = nn.Linear(width, classes)
        return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), last]

    return BoardSplit(
        trunk=nn.Sequential(
            nn.Conv2d(1, width, (10, 4), stride=2, padding=(5, 1), bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            Separable(width, width, kernel=_KERNEL),
            Separable(width, width, kernel=_KERNEL),
        ),
        helper=nn.Sequential(
            Separable(width, width, kernel=_KERNEL),
            Separable(width, width, kernel=_KERNEL),
            *answer(),
        ),
        encoder=nn.Sequential(
            nn.Conv2d(width, code, _KERNEL, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(code),
            Code(),
        ),
        tail=tail(
            code,
            tail_width,
            blocks=tail_blocks,
            kernel=_KERNEL,
            classes=classes,
            dropout=dropout,
        ),
        branch=nn.Sequential(Separable(width, width, kernel=_KERNEL, stride=(2, 2)), *answer()),
    )
