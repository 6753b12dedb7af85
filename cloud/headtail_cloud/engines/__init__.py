"""Engines: what computes the scheduler's iterations.

tail        tails and whole networks of bundles, in ONNX Runtime
llm         texts, in torch
joint       both in one
remote      none of ours: other servers of the OpenAI API, asked for whole texts
modelled    nothing at all, at a given price: for simulations and tests
"""
