"""The firmware's modules, importable on CPython too."""

import sys

from micropython_runner import FIRMWARE

sys.path.insert(0, str(FIRMWARE))
