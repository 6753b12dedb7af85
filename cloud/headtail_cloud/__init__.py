"""The cloud tier: the serving and scheduling core for tails and LLM requests."""
