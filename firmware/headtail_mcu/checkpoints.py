"""The watchdog's discipline: it is fed when every part of the loop has made progress, by nothing
else."""


class Checkpoints:
    """`longest_ms` by part: how long it may be without progress. Parts begin alive."""

    def __init__(self, longest_ms, now):
        self._longest_ms = longest_ms
        self._passed = dict.fromkeys(longest_ms, now)

    def passed(self, part, now):
        """The part did its work, or found that there was none."""
        self._passed[part] = now

    def stuck(self, now):
        """The part that is overdue, or None: then the watchdog may be fed."""
        for part, longest in self._longest_ms.items():
            if now - self._passed[part] > longest:
                return part
        return None
