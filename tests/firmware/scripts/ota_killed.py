"""An update whose process is killed, by the kernel, in the middle of its n-th write.

ota_killed.py FOLDER MODULUS UPDATE N    install, boot, confirm; N: the fatal write, or -1
ota_killed.py FOLDER MODULUS             what a boot would run now
"""

import json
import os
import sys

from headtail_mcu import head, kept_file, kernels_py, ota
from headtail_mcu.slots import Slots

folder, modulus, *rest = sys.argv[1:]
left = int(rest[1]) if rest else -1


def die():
    os.system("kill -9 $PPID")


class MortalFile:
    """A file whose writes are counted."""

    def __init__(self, file):
        self._file = file

    def write(self, data):
        global left
        if left == 0:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            die()
        left -= 1
        return self._file.write(data)

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


class MortalDisk:
    """`os` of which a rename is a write, too."""

    stat = os.stat

    @staticmethod
    def rename(a, b):
        global left
        if left == 0:
            die()
        left -= 1
        os.rename(a, b)


def mortal_open(path, mode="r"):
    return MortalFile(open(path, mode)) if "w" in mode else open(path, mode)


def test(path):
    with open(path, "rb") as file:
        head.Head(file.read(), kernels_py).self_test()


if rest:
    kept_file.open = ota.open = mortal_open
    kept_file.os = MortalDisk
    with open(rest[0], "rb") as file:
        key_id = json.loads(file.readline())["key_id"]
    with open(modulus, "rb") as file:
        keys = {key_id: file.read()}
    ota.install(Slots(folder), rest[0], keys, (0, 1, 0), 100_000, test)
    Slots(folder).boot()
    Slots(folder).confirm()
slots = Slots(folder)
running = slots.boot()
if running is not None:
    test(running)
print(slots.active, slots.release, slots.floor)
