"""ESP32 and ESP32-S3: what runs before `main.py`."""

import esp

esp.osdebug(None)  # the serial line belongs to the prompt, or to the gateway
