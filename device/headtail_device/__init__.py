"""The device: sources, head runner, sinks, and the ledger that gives each frame one outcome."""
