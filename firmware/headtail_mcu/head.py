"""Runs a head: a table of operations over one arena.

`open_head` takes the fastest kernels that reproduce the golden vector; a head that no kernels
reproduce does not run.
"""

import binascii
import struct

from .errors import HeadError
from .extents import check

MAGIC = b"HTM1"
FEATURES = 0
LOGITS = 1
MAX_PROBABILITY = 0
_ROW = 64
_OUTPUT = 24
_PACK = 6


class Output:
    """What an operation leaves that is sent or decided on."""

    def __init__(self, blob, at):
        fields = struct.unpack_from("<BBBxHHHxxIIf", blob, at)
        self.role, self.bits, self.zero = fields[:3]
        self.shape = fields[3:6]
        self.offset, self.size, self.scale = fields[6:]


class Head:
    """`input` is where the front end writes its levels, `outputs` tell what comes out.

    Raises HeadError for a blob that is damaged or reaches out of its arena; MemoryError where the
    arena does not fit.
    """

    def __init__(self, blob, kernels):
        if len(blob) < 68 or bytes(blob[:4]) != MAGIC:
            raise HeadError("not a head: export it with `headtail export mcu`")
        fields = struct.unpack_from("<IIHHB3xIHHHBxfIIII", blob, 4)
        total, arena, count, self.exit_ops, outputs, offset = fields[:6]
        if total != len(blob) or binascii.crc32(memoryview(blob)[:-4]) != _u32(blob, total - 4):
            raise HeadError("damaged head: copy it to the node again")
        self.shape, self.zero, self.scale = fields[6:9], fields[9], fields[10]
        self._seed, rows, outputs_at, self._exit_at = fields[11:]
        self._rows = range(rows, rows + count * _ROW, _ROW)
        self.outputs = [Output(blob, outputs_at + i * _OUTPUT) for i in range(outputs)]
        check(blob, self._rows, arena, total - 4)
        size = self.shape[0] * self.shape[1] * self.shape[2]
        if offset + size > arena or any(o.offset + o.size > arena for o in self.outputs):
            raise HeadError("damaged head: input or output outside its arena")
        self._blob = blob
        self._arena = bytearray(arena)
        self._view = memoryview(self._arena)
        self.input = self._view[offset : offset + size]
        self._kernels = kernels.KERNELS
        self._handles = kernels.handles(self._arena, blob)

    def run(self, fed=None):
        """Compute on what `input` holds; True if the exit took it, and then only logits are valid.

        `fed` is called after each row, so that a watchdog can be fed. The input is gone afterwards.
        """
        for index in range(len(self._rows)):
            if self._exit_at and index == self.exit_ops and self.sure():
                return True
            self._operate(self._rows[index], fed)
        return False

    def levels(self, output):
        """The bytes that an output left; they are overwritten by the next run."""
        return self._view[output.offset : output.offset + output.size]

    def answer(self, output):
        """Index of the largest logit, the first of equals."""
        levels = self.levels(output)
        best = 0
        for i in range(len(levels)):
            if levels[i] > levels[best]:
                best = i
        return best

    @property
    def exit_output(self):
        """The logits that the exit decides on, or None."""
        return self.outputs[self._blob[self._exit_at + 1]] if self._exit_at else None

    def confidence(self):
        """Probability of the exit's answer, of 65535; 0 for a head without an exit."""
        if not self._exit_at:
            return 0
        levels = self.levels(self.exit_output)
        top = max(levels)
        return self._exponential(0) * 65535 // sum(self._exponential(top - x) for x in levels)

    def sure(self):
        """Whether the exit's logits are sure enough: softmax in integers, by table."""
        criterion, _, _, limit = struct.unpack_from("<BBHI", self._blob, self._exit_at)
        levels = self.levels(self.exit_output)
        top, second, total = 0, -1, 0
        for level in levels:
            if level > top:
                top, second = level, top
            elif level > second:
                second = level
        if len(levels) == 1:
            second = -1
        for level in levels:
            total += self._exponential(top - level)
        if criterion == MAX_PROBABILITY:
            return total <= limit
        runner_up = self._exponential(top - second) if second >= 0 else 0
        return ((self._exponential(0) - runner_up) << 16) >= limit * total

    def self_test(self, fed=None):
        """Compute the golden input; raises HeadError at the first operation that is off."""
        state = self._seed
        for at in range(len(self.input)):
            state = (state * 75 + 74) % 65537
            self.input[at] = state >> 4 & 255
        for index in range(len(self._rows)):
            row = self._rows[index]
            self._operate(row, fed)
            offset, size = _left(self._blob, row)
            if binascii.crc32(self._view[offset : offset + size]) != _u32(self._blob, row + 60):
                raise HeadError(f"operation {index} computes something else than it should")

    def _operate(self, row, fed):
        kind = self._blob[row]
        kernel = self._kernels[kind]
        arena, blob = self._handles
        for y in range(1 if kind == _PACK else _u16(self._blob, row + 18)):
            kernel(arena, blob, row, y)
            if fed is not None:
                fed()

    def _exponential(self, distance):
        return _u16(self._blob, self._exit_at + 8 + 2 * distance)


def open_head(blob, backends, fed=None):
    """(head, name) with the first of `backends` ((name, kernels), ...) that passes the self-test.

    Raises HeadError with what each of them failed on.
    """
    faults = []
    for name, kernels in backends:
        head = Head(blob, kernels)
        try:
            head.self_test(fed)
            return head, name
        except HeadError as error:
            faults.append(f"{name}: {error}")
    raise HeadError("no kernels reproduce the golden vector ({})".format("; ".join(faults)))


def _left(blob, row):
    """Place and size of what an operation leaves."""
    if blob[row] == _PACK:
        size = _u16(blob, row + 12) * _u16(blob, row + 14) * _u16(blob, row + 16)
        size = (size * _u32(blob, row + 48) + 7) // 8
    else:
        size = _u16(blob, row + 18) * _u16(blob, row + 20) * _u16(blob, row + 22)
    return _u32(blob, row + 32), size


def _u16(blob, at):
    return blob[at] | blob[at + 1] << 8


def _u32(blob, at):
    return struct.unpack_from("<I", blob, at)[0]
