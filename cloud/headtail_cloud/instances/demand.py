"""How many requests were in progress, on average, over the last seconds."""

from collections import deque


class Demand:
    """A step function of time, kept as far back as the longest window that is asked for."""

    def __init__(self, *, window_s: float, now: float) -> None:
        """`window_s`: the longest."""
        self._window_s = window_s
        self._steps: deque[tuple[float, int]] = deque([(now, 0)])

    def __repr__(self) -> str:
        return f"<Demand {self.current} in progress>"

    @property
    def current(self) -> int:
        return self._steps[-1][1]

    def changed(self, in_progress: int, now: float) -> None:
        """From now on it is that many."""
        if in_progress != self.current:
            self._steps.append((now, in_progress))
        while len(self._steps) > 1 and self._steps[1][0] <= now - self._window_s:
            self._steps.popleft()

    def average(self, window_s: float, now: float) -> float:
        """Over the last `window_s`, or over what there is of it."""
        begin = max(now - window_s, self._steps[0][0])
        if now <= begin:
            return float(self.current)
        area, until = 0.0, now
        for at, value in reversed(self._steps):
            area += value * max(0.0, until - max(at, begin))
            until = max(at, begin)
            if at <= begin:
                break
        return area / (now - begin)
