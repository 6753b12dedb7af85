"""The running DC-net: one round after the other, by client, relay and guard."""
