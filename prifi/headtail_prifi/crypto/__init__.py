"""The cryptographic ground of the DC-net: pure functions and small values, no I/O, no clock."""
