"""Whether this machine is faster in half precision."""

import time
from functools import cache

import torch


@cache
def bf16_helps(device: str = "cpu") -> bool:
    """Found out by multiplying: without instructions for bfloat16 a processor is many times slower.
    Graphics processors that torch supports have them."""
    if device != "cpu":
        return True
    return _seconds(torch.bfloat16) < _seconds(torch.float32)


def _seconds(dtype: torch.dtype) -> float:
    matrix = torch.ones(384, 384, dtype=dtype)
    torch.mm(matrix, matrix)
    times = []
    for _ in range(3):
        begin = time.process_time()
        torch.mm(matrix, matrix)
        times.append(time.process_time() - begin)
    return min(times)
