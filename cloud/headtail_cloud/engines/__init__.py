"""Engines: what computes the scheduler's iterations.

tail        tails and whole networks of bundles, in ONNX Runtime
modelled    nothing at all, at a given price: for simulations and tests
"""
