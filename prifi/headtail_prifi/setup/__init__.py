"""From a signed roster to an epoch: keys, verifiable shuffle, slots. Sans-IO, one core per role."""
