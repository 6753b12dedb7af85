"""Front ends: from what a sensor gives to the levels that a head reads.

They lie in the head's own blob, so what was trained together is updated together. `open_front`
takes the fastest steps that reproduce the golden levels, as `head.open_head` does for kernels.

    front, kernels = open_front(blob)
    front.push(samples)         # as they come, in any pieces
    if front.ready:
        front.fill(net.input)   # the last patch
"""

import binascii
import struct

from . import frontend_py
from .errors import HeadError

LOG_MEL = 1
MOTION = 2
_FRONT_AT = 52


class _Front:
    """The last `patch` rows of levels, in a ring."""

    def __init__(self, patch, width):
        self._ring = bytearray(patch * width)
        self._width = width
        self._next = 0
        self._rows = 0

    @property
    def ready(self):
        """Whether there is a whole patch."""
        return self._rows * self._width >= len(self._ring)

    def fill(self, levels):
        """Write the last patch, the oldest row first."""
        first = len(self._ring) - self._next
        levels[:first] = self._ring[self._next :]
        levels[first:] = self._ring[: self._next]

    def clear(self):
        """Forget everything, as after a gap."""
        self._next = self._rows = 0

    def _row(self):
        """Where the next row goes."""
        row = memoryview(self._ring)[self._next : self._next + self._width]
        self._next = (self._next + self._width) % len(self._ring)
        self._rows += 1
        return row

    def _check_golden(self, wanted):
        """Whether the first two rows are right. Raises HeadError."""
        found = binascii.crc32(memoryview(self._ring)[: 2 * self._width])
        self.clear()
        if found != wanted:
            raise HeadError("the front end computes something else than it should")


class LogMel(_Front):
    """Log-mel spectra of 16-bit samples, little-endian, one after another.

    Raises HeadError where the tables reach out of their section.
    """

    def __init__(self, tables, steps):
        if len(tables) < 56:
            raise HeadError("damaged head: its front end lies outside")
        self._tables = tables
        self.window, self.hop, patch, bands = struct.unpack_from("<HHHH", tables, 2)
        self.rate = struct.unpack_from("<I", tables, 12)[0]
        self._check(patch, bands)
        super().__init__(patch, bands)
        self._steps = steps
        self._work = bytearray((4 << tables[1]) + 4)
        self._held = bytearray(2 * self.window)
        self._count = 0
        self._at = steps.address(tables), steps.address(self._work), steps.address(self._held)

    def push(self, samples, fed=None):
        """Take samples (bytes); `fed` is called after each spectrum."""
        view, at = memoryview(samples), 0
        size = 2 * self.window
        while at < len(view):
            taken = min(size - self._count, len(view) - at)
            self._held[self._count : self._count + taken] = view[at : at + taken]
            self._count += taken
            at += taken
            if self._count == size:
                self._spectrum()
                self._count = size - 2 * self.hop
                self._held[: self._count] = self._held[2 * self.hop :]
                if fed is not None:
                    fed()

    def clear(self):
        """Forget everything, as after a gap."""
        super().clear()
        self._count = 0

    def self_test(self):
        """Raises HeadError unless two windows of noise give the golden levels."""
        seed, wanted = struct.unpack_from("<II", self._tables, 44)
        noise = _noise(seed, len(self._held))
        self.clear()
        self._held[:] = noise
        self._spectrum()
        for at in range(0, len(noise), 2):
            value = struct.unpack_from("<h", noise, at)[0] >> 9
            struct.pack_into("<h", self._held, at, value)
        self._spectrum()
        self._check_golden(wanted)

    def _spectrum(self):
        steps, (tables, work, held) = self._steps, self._at
        exponent = steps.shifted(held, tables, work)
        steps.transform(work, tables)
        steps.magnitudes(work, tables)
        steps.levels(work, tables, steps.address(self._row()), exponent)

    def _check(self, patch, bands):
        tables = self._tables
        half = 1 << tables[1]
        places = struct.unpack_from("<HHHHHH", tables, 32)
        sizes = (2 * self.window, 4 * half, half, 130, 4 * bands, 0)
        fits = 3 <= tables[1] <= 8 and patch >= 2 and bands
        fits = fits and 0 < self.hop <= self.window <= 2 * half
        for place, size in zip(places, sizes):
            fits = fits and place % 4 == 0 and place + size <= len(tables)
        weights = 0
        for band in range(bands if fits else 0):
            first, count = struct.unpack_from("<HH", tables, places[4] + 4 * band)
            fits = fits and first + count <= half + 1
            weights += count
        if fits:
            fits = places[5] + weights <= len(tables)
            fits = fits and max(tables[places[2] : places[2] + half]) < half
        if not fits:
            raise HeadError("damaged head: its front end reaches out of its tables")


class Motion(_Front):
    """Readings of an inertial sensor: 16-bit numbers, little-endian, channel after channel.

    Raises HeadError where the tables reach out of their section.
    """

    def __init__(self, tables, _):
        self.channels = tables[1]
        patch, self.rate = struct.unpack_from("<HH", tables, 2)
        if not self.channels or patch < 2 or len(tables) < 16 + 8 * self.channels:
            raise HeadError("damaged head: its front end reaches out of its tables")
        super().__init__(patch, self.channels)
        self._tables = tables

    def push(self, samples, fed=None):
        """Take whole readings (bytes); `fed` is called after each."""
        for at in range(0, len(samples), 2 * self.channels):
            row = self._row()
            for channel in range(self.channels):
                factor, drop, bias = struct.unpack_from("<hHi", self._tables, 16 + 8 * channel)
                value = struct.unpack_from("<h", samples, at + 2 * channel)[0]
                row[channel] = min(max((value * factor + bias) >> drop, 0), 255)
            if fed is not None:
                fed()

    def self_test(self):
        """Raises HeadError unless two readings of noise give the golden levels."""
        seed, wanted = struct.unpack_from("<II", self._tables, 8)
        self.clear()
        self.push(_noise(seed, 4 * self.channels))
        self._check_golden(wanted)


def open_front(blob):
    """(front, name of its steps) of a head's blob; (None, "") where it has none.

    Raises HeadError with what each of the steps failed on.
    """
    at = struct.unpack_from("<I", blob, _FRONT_AT)[0]
    if not at:
        return None, ""
    if at % 4 or not 64 <= at <= len(blob) - 20:
        raise HeadError("damaged head: its front end lies outside")
    tables = memoryview(blob)[at : len(blob) - 4]
    kinds = {LOG_MEL: LogMel, MOTION: Motion}
    if tables[0] not in kinds:
        raise HeadError("this firmware is too old for the head's front end: update it")
    faults = []
    for name, steps in _backends():
        front = kinds[tables[0]](tables, steps)
        try:
            front.self_test()
            return front, name
        except HeadError as error:
            faults.append(f"{name}: {error}")
    raise HeadError("; ".join(faults))


def _noise(state, size):
    noise = bytearray(size)
    for at in range(size):
        state = (state * 75 + 74) % 65537
        noise[at] = state >> 4 & 255
    return noise


def _backends():
    try:
        from . import frontend_viper
    except (ImportError, SyntaxError, ValueError):
        return (("python", frontend_py),)
    return ("viper", frontend_viper), ("python", frontend_py)
