"""Normalisations as part of the convolutions before them, which is how networks are released."""

import copy
from typing import TypeVar

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from headtail_models.nets.board_split import BoardSplit
from headtail_models.training.export import halve

Network = TypeVar("Network", bound=nn.Module)


def folded(network: Network) -> Network:
    """A copy, ready to be run, that computes the same."""
    result = copy.deepcopy(network).eval()
    for parent in result.modules():
        before: tuple[str, nn.Conv2d] | None = None
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d) and before is not None:
                setattr(parent, before[0], fuse_conv_bn_eval(before[1], child))
                setattr(parent, name, nn.Identity())
            before = (name, child) if isinstance(child, nn.Conv2d) else None
    return result


def folded_split(network: BoardSplit) -> BoardSplit:
    """A copy as it is released: folded, weights halved, without what only training has."""
    result = folded(
        BoardSplit(
            trunk=network.trunk, branch=network.branch, encoder=network.encoder, tail=network.tail
        )
    )
    halve(result)
    return result
