"""Raspberry Pi Pico W and Pico 2 W: what runs before `main.py`."""

import rp2

rp2.country("XX")  # your country's two letters: Wi-Fi channels and power depend on it
