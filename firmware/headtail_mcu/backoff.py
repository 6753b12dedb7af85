"""How long to wait before the next try: exponential, with full jitter.

Brooker, "Exponential Backoff and Jitter" (2015): nodes that failed together don't come together.
"""


class Backoff:
    """`random(n)` gives n random bytes. `failures` survives deep sleep with its owner."""

    def __init__(self, first_ms, most_ms, random, failures=0):
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._random = random
        self.failures = failures

    def failed(self):
        """Milliseconds to wait: up to first * 2^n, at least a quarter of the first."""
        ceiling = min(self._first_ms << min(self.failures, 16), self._most_ms)
        self.failures = min(self.failures + 1, 255)
        drawn = int.from_bytes(self._random(2), "big")
        return max(self._first_ms // 4, ceiling * drawn // 65536)

    def succeeded(self):
        self.failures = 0
