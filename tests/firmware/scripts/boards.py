"""The board of the unix port, then one with a `machine` module, which a class stands in for."""

import sys

from headtail_mcu import hal

path = sys.argv[1]
board = hal.open_board(path)
assert type(board).__name__ == "UnixBoard"
board.start_watchdog(8000)
board.feed()
assert board.wake_reason() == "power-on"
assert board.kept() == b""
board.keep(b"state")
assert hal.open_board(path).kept() == b"state"
assert hal.open_board(path).wake_reason() == "deep-sleep"
assert len(board.random(5)) == 5
assert board.since(board.ticks_ms()) >= 0
board.sleep_ms(1)
try:
    board.keep(bytes(5000))
    raise AssertionError("kept")
except ValueError:
    pass


class Machine:
    """What MicroPython's `machine` has on an ESP32; on an RP2 the RTC has no memory."""

    PWRON_RESET, WDT_RESET, DEEPSLEEP_RESET = 1, 3, 4
    slept = None
    fed = 0

    class WDT:
        def __init__(self, timeout):
            assert timeout == 8000

        def feed(self):
            Machine.fed += 1

    class RTC:
        stored = b""

        def memory(self, data=None):
            if data is None:
                return Machine.RTC.stored
            Machine.RTC.stored = data
            return data

    @staticmethod
    def reset_cause():
        return Machine.WDT_RESET

    @staticmethod
    def unique_id():
        return bytearray(b"\x01\x02")

    @staticmethod
    def deepsleep(ms):
        Machine.slept = ms


sys.modules["machine"] = Machine
board = hal.open_board(path)
assert type(board).__name__ == "MachineBoard"
board.feed()
assert Machine.fed == 0
board.start_watchdog(8000)
board.feed()
assert Machine.fed == 1
assert board.wake_reason() == "watchdog"
assert board.unique_id() == b"\x01\x02"
board.keep(b"in rtc memory")
assert Machine.RTC.stored == board.kept() == b"in rtc memory"
try:
    board.keep(bytes(2000))
    raise AssertionError("kept")
except ValueError:
    pass
board.deep_sleep(60000)
assert Machine.slept == 60000
del Machine.RTC.memory
board = hal.open_board(path)
board.keep(b"in a file")
assert hal.open_board(path).kept() == b"in a file"
print("passed")
