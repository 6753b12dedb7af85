"""A computer as a board: what tests run on, and a node without hardware."""

import os
import select
import sys
import time

from .kept_file import KeptFile
from .radio import NoRadio

_TEMPORARY_FAILURE = 75
_AT_ONCE = 512


class UnixBoard:
    """See `hal`. Deep sleep ends the process with status 0, a restart with 75
    (try again); who supervises it starts it again."""

    def __init__(self, state_path):
        self._file = KeptFile(state_path)
        self._asleep = state_path + ".asleep"
        self._wake = "deep-sleep" if _remove(self._asleep) else "power-on"

    def start_watchdog(self, ms):
        """There is none: the supervisor sees the process."""

    def feed(self):
        """Nothing to feed."""

    def wake_reason(self):
        return self._wake

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
        open(self._asleep, "wb").close()
        time.sleep_ms(ms)
        sys.exit(0)

    def say(self, text):
        sys.stdout.write(text + "\n")

    def restart(self):
        sys.exit(_TEMPORARY_FAILURE)

    def battery_mv(self):
        return 0

    def open_uart(self, link):
        return _Terminal(link["device"])

    def open_radio(self, ssid, password):
        return NoRadio()

    def keep(self, data):
        self._file.write(data)

    def kept(self):
        return self._file.read()


class _Terminal:
    """A serial device as a UART; whoever opened the line has set it up (`stty raw`)."""

    def __init__(self, path):
        self._file = open(path, "r+b", 0)
        self._poller = select.poll()
        self._poller.register(self._file, select.POLLIN)

    def read(self):
        """What is there, or None."""
        data = bytearray()
        while len(data) < _AT_ONCE and self._poller.poll(0):
            byte = self._file.read(1)
            if not byte:
                break
            data.extend(byte)
        return bytes(data) or None

    def write(self, data):
        return self._file.write(data)


def _remove(path):
    """Whether it was there."""
    try:
        os.remove(path)
    except OSError:
        return False
    return True
