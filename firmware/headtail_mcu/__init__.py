"""Headtail's device role on a microcontroller, in MicroPython."""

__version__ = "0.1.0"
