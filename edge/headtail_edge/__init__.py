"""The edge server: bundle registry, batcher, tail runner, daemon."""
