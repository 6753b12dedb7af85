"""The way to the network, switched on for as long as it is needed.

start()  ready()  stop()     joining goes on by itself; nothing here waits
rssi()                       dBm, 0 where nobody can tell
"""


class NoRadio:
    """A computer, a cable, a serial line: nothing to switch."""

    def start(self):
        """Nothing to do."""

    def ready(self):
        return True

    def stop(self):
        """Nothing to do."""

    def rssi(self):
        return 0


class Wifi:
    """A station. The driver is asked for only on boards that have one."""

    def __init__(self, ssid, password):
        import network

        self._wlan = network.WLAN(network.STA_IF)
        self._ssid = ssid
        self._password = password

    def start(self):
        self._wlan.active(True)
        if not self._wlan.isconnected():
            self._wlan.connect(self._ssid, self._password)

    def ready(self):
        return self._wlan.isconnected()

    def stop(self):
        self._wlan.disconnect()
        self._wlan.active(False)

    def rssi(self):
        try:
            return max(-128, min(0, self._wlan.status("rssi")))
        except (OSError, ValueError, RuntimeError):
            return 0
