"""Runs a head on the inputs of a file, with the kernels named; prints what each leaves, as hex."""

import sys
from binascii import hexlify

from headtail_mcu import head, kernels_py, kernels_viper

path, inputs, kernels = sys.argv[1:]
with open(path, "rb") as file:
    found = head.Head(file.read(), kernels_viper if kernels == "viper" else kernels_py)
with open(inputs, "rb") as file:
    while file.readinto(found.input):
        exited = found.run()
        left = [hexlify(bytes(found.levels(output))).decode() for output in found.outputs]
        print(int(exited), *left)
