"""How long a part of a model takes, in processor time of the one thread that computes it.

Processor time, because a busy machine's wall clock times its neighbours as well. With one thread
the runtime computes on the thread that calls.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Final

REPEATS: Final = 5
WARM_UP: Final = 1


def median_s(
    work: Callable[[], object],
    *,
    repeats: int = REPEATS,
    warm_up: int = WARM_UP,
    clock: Callable[[], float] = time.thread_time,
) -> float:
    """The median of `repeats` runs after `warm_up` that are not counted."""
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return median(times)
