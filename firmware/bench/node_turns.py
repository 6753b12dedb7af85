"""A node on an emulated board that has no files, no clock and no network: all three are made here,
outside the heap, so that what the heap holds is what it would hold on a board.

    prepare(HEAP)         leave a heap of so many bytes, then `begin()` starts the node in /flash
    turns(N)              N of its turns at most, fewer where it has said something
    said()  give(hex)     what it sent since, in hex; what it is to receive
"""

import binascii
import builtins
import gc
import io
import sys

import uctypes

try:
    import vfs
except ImportError:
    import os as vfs

_MEMORY = 0x21000000  # 16 MiB of RAM that MicroPython does not use
_TABLE_BYTES = 8192
_ROW = 64
_ROOM = 0x10000
_PIPE_BYTES = 0x40000

_table = uctypes.bytearray_at(_MEMORY, _TABLE_BYTES)
_files = _MEMORY + _TABLE_BYTES
_sent = uctypes.bytearray_at(_MEMORY + 0x800000, _PIPE_BYTES)
_came = uctypes.bytearray_at(_MEMORY + 0x900000, _PIPE_BYTES)
_marks = uctypes.bytearray_at(_MEMORY + 0xA00000, 16)
for _at in range(_TABLE_BYTES):
    _table[_at] = 0
for _at in range(16):
    _marks[_at] = 0
ENDS, HEARD, NOW, GIVEN = 0, 4, 8, 12


def mark(at):
    return int.from_bytes(_marks[at : at + 4], "little")


def set_mark(at, value):
    _marks[at : at + 4] = value.to_bytes(4, "little")


class _File(io.IOBase):
    def __init__(self, row, size):
        self._row, self._at = row, 0
        self._data = memoryview(uctypes.bytearray_at(_files + row * _ROOM, _ROOM))
        if size is not None:
            _resize(row, size)

    def readinto(self, room):
        gc.collect()  # a file system in C leaves no garbage between what is loaded
        count = max(0, min(len(room), _size(self._row) - self._at))
        room[:count] = self._data[self._at : self._at + count]
        self._at += count
        return count

    def write(self, data):
        end = self._at + len(data)
        self._data[self._at : end] = data
        self._at = end
        if end > _size(self._row):
            _resize(self._row, end)
        return len(data)

    def read(self, most=-1):
        left = max(0, _size(self._row) - self._at)
        end = self._at + (left if most < 0 else min(left, most))
        data = bytes(self._data[self._at : end])
        self._at = end
        return data

    def seek(self, at):
        self._at = at

    def flush(self):
        pass

    def close(self):
        pass

    def ioctl(self, what, argument):
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def _size(row):
    return int.from_bytes(_table[row * _ROW + 60 : row * _ROW + 64], "little")


def _resize(row, size):
    _table[row * _ROW + 60 : row * _ROW + 64] = size.to_bytes(4, "little")


def _find(path):
    name = path.strip("/").encode()
    for row in range(_TABLE_BYTES // _ROW):
        at = row * _ROW
        if _table[at] == len(name) and _table[at + 1 : at + 1 + len(name)] == name:
            return row
    return None


def _name(row, path):
    name = path.strip("/").encode()
    _table[row * _ROW] = len(name)
    _table[row * _ROW + 1 : row * _ROW + 1 + len(name)] = name


class _Flash:
    def mount(self, *_):
        pass

    def umount(self):
        pass

    def chdir(self, _):
        pass

    def mkdir(self, path):
        pass

    def ilistdir(self, path):
        return iter(())

    def stat(self, path):
        row = _find(path)
        if row is not None:
            return (0x8000, 0, 0, 0, 0, 0, _size(row), 0, 0, 0)
        if path.strip("/") in ("headtail_mcu", "heads"):
            return (0x4000,) + (0,) * 9
        raise OSError(2)

    def rename(self, old, new):
        row = _find(old)
        self.remove(new)
        _name(row, new)

    def remove(self, path):
        row = _find(path)
        if row is not None:
            _table[row * _ROW] = 0

    def open(self, path, mode):
        row = _find(path)
        gc.collect()
        if row is None:
            if "w" not in mode:
                raise OSError(2)
            row = next(one for one in range(_TABLE_BYTES // _ROW) if not _table[one * _ROW])
            _name(row, path)
        file = _File(row, 0 if "w" in mode else None)
        return file if "b" in mode else io.StringIO(file.read().decode())


def put(path, size):
    """A file of so many bytes, that `fill` writes."""
    with builtins.open("/flash/" + path, "wb"):
        pass
    _resize(_find(path), size)


def fill(path, at, piece):
    uctypes.bytearray_at(_files + _find(path) * _ROOM, _ROOM)[at : at + len(piece)] = piece


class Board:
    """See `headtail_mcu.hal`; a UART at either end of which the host sits."""

    def start_watchdog(self, ms):
        pass

    def feed(self):
        pass

    def wake_reason(self):
        return "power-on"

    def random(self, n):
        import os

        return os.urandom(n)

    def sleep_ms(self, ms):
        set_mark(NOW, mark(NOW) + ms)

    def say(self, text):
        print("#", text)

    def restart(self):
        raise SystemExit("restart")

    def battery_mv(self):
        return 0

    def kept(self):
        return b""

    def open_radio(self, ssid, password):
        from headtail_mcu.radio import NoRadio

        return NoRadio()

    def open_uart(self, link):
        return self

    def read(self):
        return came(512) or None

    def write(self, data):
        return send(data)


def came(most):
    """What was given and not yet taken."""
    at, end = mark(HEARD), mark(GIVEN)
    count = min(most, end - at)
    set_mark(HEARD, at + count)
    return bytes(_came[at : at + count])


def waiting():
    return mark(GIVEN) - mark(HEARD)


def send(data):
    end = mark(ENDS)
    _sent[end : end + len(data)] = data
    set_mark(ENDS, end + len(data))
    return len(data)


def said():
    end = mark(ENDS)
    for at in range(0, end, 256):
        print(binascii.hexlify(_sent[at : min(at + 256, end)]).decode(), end="")
    set_mark(ENDS, 0)


def give(hexed):
    data = binascii.unhexlify(hexed)
    if not waiting():
        set_mark(HEARD, 0)
        set_mark(GIVEN, 0)
    end = mark(GIVEN)
    _came[end : end + len(data)] = data
    set_mark(GIVEN, end + len(data))


_ballast = None
_node = None


def prepare(heap):
    """Taken in one piece, before there is anything else."""
    global _ballast
    import os  # noqa: F401 - in C on other boards

    gc.collect()
    _ballast = bytearray(max(0, gc.mem_free() - heap - 32))
    gc.collect()
    print(gc.mem_free())


def begin():
    from headtail_mcu import node

    def keep(self, ticks):
        global _node
        _node = (self, ticks)

    node.Node.run = keep
    from headtail_mcu.assembly import main

    main("/flash", Board())


def turns(most):
    node, ticks = _node
    for _ in range(most):
        wait = node.step(ticks.now())
        if node._link is not None:
            node._listen(wait, ticks)
        else:
            node._board.sleep_ms(wait)
        if mark(ENDS):
            break


def state():
    gc.collect()
    print(gc.mem_free(), _node[0]._log.acked)


vfs.mount(_Flash(), "/flash")
sys.path.append("/flash")
gc.collect()
