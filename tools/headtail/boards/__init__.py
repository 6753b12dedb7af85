"""The firmware on what stands in for a board: MicroPython on this machine, and an emulated one."""
