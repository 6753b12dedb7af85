"""Benchmarks: one module each, `add_arguments(parser)` and `run(options) -> Report`."""
