"""Sounds: reading them, the spectra that a network takes, and what it says of them."""
