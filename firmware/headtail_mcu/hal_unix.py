"""A computer as a board: what tests run on, and a node without hardware."""

import os
import sys
import time

from .kept_file import KeptFile


class UnixBoard:
    """See `hal`. Deep sleep ends the process with status 0; who supervises it starts it again."""

    def __init__(self, state_path):
        self._file = KeptFile(state_path)

    def start_watchdog(self, ms):
        """There is none: the supervisor sees the process."""

    def feed(self):
        """Nothing to feed."""

    def wake_reason(self):
        return "deep-sleep" if self._file.read() else "power-on"

    def unique_id(self):
        return (os.getenv("HEADTAIL_NODE") or "unix").encode()

    def random(self, n):
        return os.urandom(n)

    def ticks_ms(self):
        return time.ticks_ms()

    def since(self, ticks):
        return time.ticks_diff(time.ticks_ms(), ticks)

    def sleep_ms(self, ms):
        time.sleep_ms(ms)

    def deep_sleep(self, ms):
        time.sleep_ms(ms)
        sys.exit(0)

    def keep(self, data):
        self._file.write(data)

    def kept(self):
        return self._file.read()
