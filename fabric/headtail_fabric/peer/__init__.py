"""The two ends of a connection: sans-IO cores, and the shells that move their frames."""
