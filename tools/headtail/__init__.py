"""The `headtail` command and its benchmarks."""

import os
from importlib.metadata import version

# Before numpy is imported. The products in an entropy coder's context are small: two threads of one
# process spend more time waiting for each other, spinning, than they save, and take it from the
# network beside them (on two shared cores a frame's head took 167 ms instead of 49).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = version("headtail")
