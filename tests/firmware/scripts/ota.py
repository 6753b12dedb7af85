"""Updates: good ones, forged ones, old ones, and the power cut at each write.

ota.py FOLDER MODULUS_FILE GOOD NEWER FORGED...
"""

import json
import os
import sys

from headtail_mcu import head, kept_file, kernels_py, ota
from headtail_mcu.errors import HeadError, NodeError, StoreError
from headtail_mcu.slots import Slots

folder, modulus, good, newer, *forged = sys.argv[1:]
with open(good, "rb") as file:
    key_id = json.loads(file.readline())["key_id"]
with open(modulus, "rb") as file:
    KEYS = {key_id: file.read()}
FIRMWARE = (0, 1, 0)


class PowerCutError(Exception):
    pass


class CutFile:
    """A file whose writes stop for good when the budget is used up, in the middle of one."""

    left = None

    def __init__(self, file):
        self._file = file

    def write(self, data):
        if CutFile.left is not None:
            if CutFile.left == 0:
                self._file.write(data[: len(data) // 2])
                self._file.flush()
                raise PowerCutError
            CutFile.left -= 1
        return self._file.write(data)

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()

    def read(self, n=-1):
        return self._file.read(n)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


class CutDisk:
    """`os` of which a rename is a write, too."""

    stat = os.stat

    @staticmethod
    def rename(a, b):
        if CutFile.left is not None:
            if CutFile.left == 0:
                raise PowerCutError
            CutFile.left -= 1
        os.rename(a, b)


def cut_open(path, mode="r"):
    file = open(path, mode)
    return CutFile(file) if "w" in mode else file


kept_file.open = ota.open = cut_open
kept_file.os = CutDisk


def test(path):
    with open(path, "rb") as file:
        head.Head(file.read(), kernels_py).self_test()


def install(path, slots=None):
    return ota.install(slots or Slots(folder), path, KEYS, FIRMWARE, 100_000, test)


def fails(path, why):
    try:
        install(path)
    except NodeError as error:
        assert why in str(error), (path, str(error))
        return
    raise AssertionError(path)


def running():
    """The head that a boot would run now, tested, and the slots."""
    slots = Slots(folder)
    path = slots.boot()
    if path is not None:
        test(path)
    return path and path[len(folder) + 1 :], slots


def wipe():
    for name in os.listdir(folder):
        os.remove(folder + "/" + name)


assert running()[0] is None
for path in forged:
    fails(path, path.rsplit("/", 1)[-1].split(".")[0].replace("_", " "))
    assert running()[0] is None

assert install(good)["release"] == 1
name, slots = running()
assert name == "a.head" and slots.tries == 1
fails(newer, "confirm it first")
slots.confirm()
fails(good, "release 1 is old")

# A head that is never confirmed is gone back from after three boots, and not taken again.
install(newer)
for tries in (1, 2, 3):
    name, slots = running()
    assert name == "b.head" and slots.tries == tries
name, slots = running()
assert name == "a.head" and slots.tries is None and slots.refused == 2
fails(newer, "release 2 is old or failed")
try:
    slots.revert()
    raise AssertionError("reverted")
except StoreError:
    pass

# A head that the test refuses leaves what runs as it was.
wipe()
install(good)
running()[1].confirm()


def refuse(path):
    raise HeadError("refused")


try:
    ota.install(Slots(folder), newer, KEYS, FIRMWARE, 100_000, refuse)
    raise AssertionError("installed")
except HeadError:
    assert running()[0] == "a.head"
fails_size = 100
try:
    ota.install(Slots(folder), newer, KEYS, FIRMWARE, fails_size, test)
    raise AssertionError("installed")
except StoreError as error:
    assert "room for 100" in str(error)
try:
    ota.install(Slots(folder), newer, KEYS, (0, 0, 9), 100_000, test)
    raise AssertionError("installed")
except StoreError as error:
    assert "needs firmware" in str(error)

# The power cut at each write of an update, of its first boot and of its confirmation.
cuts = 0
while True:
    wipe()
    CutFile.left = None
    install(good)
    running()[1].confirm()
    CutFile.left = cuts
    try:
        install(newer)
        Slots(folder).boot()
        Slots(folder).confirm()
        done = True
    except PowerCutError:
        done = False
    CutFile.left = None
    name, slots = running()
    assert name in ("a.head", "b.head"), (cuts, name)
    assert slots.floor == (2 if slots.active == "b" and slots.tries is None else 1)
    if slots.active == "a":
        install(newer)
        assert running()[0] == "b.head"
    if done:
        break
    cuts += 1
assert cuts > 5
with open(folder + "/slots.json", "w") as file:
    file.write("{")
try:
    Slots(folder)
    raise AssertionError("loaded")
except StoreError:
    pass
print("passed", cuts)
