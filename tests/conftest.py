"""For every test."""

import os

# Before torch or numpy is imported: on cores that others use, threads of one process wait for each
# other, and a test that takes a second takes minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
