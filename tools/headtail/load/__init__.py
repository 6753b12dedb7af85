"""Closed-loop load on a server, and what the bare computation reaches: for the benchmarks."""
