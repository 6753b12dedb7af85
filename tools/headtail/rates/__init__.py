"""Accuracy against bytes: what its benchmarks share."""
