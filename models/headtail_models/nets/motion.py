"""The network of motion: what somebody does who wears an inertial sensor.

(1, 128, 6) -> 9 readings of all channels, stride 2 -> a separable block, stride 2 -> (32, 32, 1)
exit: two more blocks, mean, dense                  code: 3 steps, stride 2 -> (4, 16, 1)
"""

from typing import Final

from torch import nn

from headtail_models.nets.board_split import BoardSplit, Code, Separable, tail

_STEP: Final = (2, 1)


def motion_net(
    *,
    classes: int,
    channels: int = 6,
    width: int = 32,
    exit_blocks: int = 0,
    code: int = 4,
    tail_width: int = 64,
    tail_blocks: int = 2,
    dropout: float = 0.2,
) -> BoardSplit:
    """Input (N, 1, 128, channels): readings, one a row."""
    return BoardSplit(
        trunk=nn.Sequential(
            nn.Conv2d(1, width, (9, channels), stride=_STEP, padding=(4, 0), bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            Separable(width, width, kernel=(5, 1), stride=_STEP),
        ),
        branch=nn.Sequential(
            *(Separable(width, width, kernel=(5, 1)) for _ in range(exit_blocks)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(width, classes),
        ),
        encoder=nn.Sequential(
            nn.Conv2d(width, code, (3, 1), stride=_STEP, padding=(1, 0), bias=False),
            nn.BatchNorm2d(code),
            Code(),
        ),
        tail=tail(
            code,
            tail_width,
            blocks=tail_blocks,
            kernel=(3, 1),
            classes=classes,
            dropout=dropout,
        ),
    )
