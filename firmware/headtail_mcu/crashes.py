"""Safe mode after three crashes in a row, so that a node that can't run can still be reached.

A start is counted before anything else happens, and no longer once the node has been healthy for a
while; a wake from deep sleep is no start, as the node was healthy when it lay down. So what is
counted are exceptions, watchdogs, faults and power that breaks down under load alike.
"""

from .kept_file import KeptFile

LIMIT = 3
_MAX_TEXT = 100


class Crashes:
    """`count` starts without a healthy period behind them; `text`: what the last exception said."""

    def __init__(self, path):
        self._kept = KeptFile(path)
        data = self._kept.read()
        self.count = data[0] if data else 0
        # Bytes of a text that was cut may end in half a character.
        self.text = "".join(chr(b) if 32 <= b < 127 else "?" for b in data[1:])
        self._counted = False

    @property
    def safe(self):
        """Whether the node shall not try again by itself."""
        return self.count >= LIMIT

    def started(self, wake):
        """To be called first, with the reason of this start."""
        if wake != "deep-sleep":
            self._counted = True
            self._write(self.count + 1, self.text)

    def crashed(self, text):
        """Keep what is known of the end; a start that was counted is not counted again."""
        self._write(self.count if self._counted else self.count + 1, text)

    def healthy(self):
        """All is well: what happened before counts no more."""
        self._counted = False
        if self.count:
            self._write(0, "")

    def last_chance(self):
        """One more start, and back to safe mode if it fails."""
        self._write(LIMIT - 1, self.text)

    def _write(self, count, text):
        self.count, self.text = min(count, 255), text[:_MAX_TEXT]
        self._kept.write(bytes((self.count,)) + self.text.encode())
