"""The `headtail` command and its benchmarks."""

from importlib.metadata import version

__version__ = version("headtail")
