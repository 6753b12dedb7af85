"""Networks and where they may be cut: bundles, stages, pre- and post-processing, assets."""
