"""Golden vectors of heads with each of the kernels, which have to be those named first (with commas
between them); then no kernels that fit."""

import sys

from headtail_mcu import head, kernels_py
from headtail_mcu.backends import backends
from headtail_mcu.errors import HeadError

BACKENDS = backends()
NAMES = sys.argv[1].split(",")
assert [name for name, _ in BACKENDS] == NAMES

for path in sys.argv[2:]:
    with open(path, "rb") as file:
        blob = file.read()
    for _, kernels in BACKENDS:
        head.Head(blob, kernels).self_test()
    found, name = head.open_head(blob, BACKENDS)
    assert name == NAMES[0]


def off(arena, blob, row, y):
    kernels_py.convolution(arena, blob, row, y)
    arena[-1] ^= 1
    for i in range(len(arena)):
        arena[i] ^= 1


class Wrong:
    """Kernels whose convolution is off by one."""

    handles = staticmethod(kernels_py.handles)

    def __init__(self):
        self.KERNELS = list(kernels_py.KERNELS)
        self.KERNELS[1] = off


found, name = head.open_head(blob, (("wrong", Wrong()), ("python", kernels_py)))
assert name == "python"
try:
    head.open_head(blob, (("wrong", Wrong()),))
    raise AssertionError("accepted")
except HeadError as error:
    assert "wrong: operation" in str(error), error
print("passed", len(sys.argv) - 2)
