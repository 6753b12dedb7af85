"""The ring log with its file cut off at every byte of a write, and other turns of fate."""

import os
import sys

from headtail_mcu.errors import StoreError
from headtail_mcu.ring import RingLog

path = sys.argv[1]
SLOTS, SIZE = 5, 32


def opened():
    return RingLog(path, SLOTS, SIZE)


def read():
    with open(path, "rb") as file:
        return file.read()


def write(data):
    with open(path, "wb") as file:
        file.write(data)


def sequences(log):
    return [record[0] for record in log.unacknowledged(100)]


log = opened()
assert log.waiting == log.lost == log.acked == 0 and sequences(log) == []
for i in range(3):
    assert log.append(1000 + i, bytes((i,)) * i) == i + 1
log.flush()
assert log.unacknowledged(2) == [(1, 1000, b""), (2, 1001, b"\x01")]
log.acknowledge(2)
log.close()

log = opened()  # what was acknowledged and what was not survive
assert log.acked == 2 and sequences(log) == [3] and log.waiting == 1
log.acknowledge(1)
log.acknowledge(99)
assert log.acked == 2
for _ in range(6):
    log.append(0, b"x")
assert sequences(log) == [5, 6, 7, 8, 9] and log.lost == 2 and log.waiting == 5
log.flush()
log.acknowledge(6)
assert log.lost == 2 and sequences(log) == [7, 8, 9]
log.close()
log = opened()
assert log.lost == 2 and sequences(log) == [7, 8, 9]
log.close()

# A power cut in the middle of a record, at any byte: the ones before are all there.
before = read()
log = opened()
log.append(7, b"torn")
log.flush()
log.close()
after = read()
changed = [i for i in range(len(after)) if before[i] != after[i]]
for cut in range(changed[0], changed[-1] + 2):
    write(after[:cut] + before[cut:])
    log = opened()
    whole = cut > changed[-1]
    assert sequences(log) == ([7, 8, 9, 10] if whole else [7, 8, 9]), (cut, sequences(log))
    assert log.append(8, b"next") == (11 if whole else 10)
    log.flush()
    assert sequences(log)[-1] == (11 if whole else 10)
    log.close()

# A power cut in the middle of an acknowledgement: the old mark or the new one.
write(after)
log = opened()
log.acknowledge(9)
log.close()
acknowledged = read()
changed = [i for i in range(len(after)) if acknowledged[i] != after[i]]
for cut in range(changed[0], changed[-1] + 2):
    write(acknowledged[:cut] + after[cut:])
    log = opened()
    assert log.acked == (9 if cut > changed[-1] else 6)
    log.close()

try:
    RingLog(path, SLOTS + 1, SIZE)
    raise AssertionError("opened")
except StoreError as error:
    assert "delete it" in str(error)
log = opened()
try:
    log.append(0, bytes(19))
    raise AssertionError("appended")
except ValueError:
    log.close()
os.remove(path)
log = opened()
assert log.waiting == 0
log.close()
print("passed")
