"""The board of the unix port, then one with a `machine` module, which a class stands in for."""

import sys

from headtail_mcu import hal, hal_rp2

path = sys.argv[1]
board = hal.open_board(path)
assert type(board).__name__ == "UnixBoard"
board.start_watchdog(8000)
board.feed()
assert board.wake_reason() == "power-on"
assert board.kept() == b""
board.keep(b"state")
assert hal.open_board(path).kept() == b"state"
assert hal.open_board(path).wake_reason() == "power-on"
for end, status in ((lambda: board.deep_sleep(1), 0), (board.restart, 75)):
    try:
        end()
        raise AssertionError("went on")
    except SystemExit as error:
        assert error.args[0] == status
assert hal.open_board(path).wake_reason() == "deep-sleep"
assert hal.open_board(path).wake_reason() == "power-on"
assert board.battery_mv() == 0
radio = board.open_radio("", "")
radio.start()
assert radio.ready() and radio.rssi() == 0
radio.stop()
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

    class UART:
        def __init__(self, number, baudrate, timeout, rxbuf):
            assert (number, baudrate, timeout) == (1, 9600, 0) and rxbuf >= 512

    reset_count = 0

    @staticmethod
    def reset():
        Machine.reset_count += 1

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
board.restart()
assert Machine.reset_count == 1
assert isinstance(board.open_uart({"uart": 1, "baud": 9600}), Machine.UART)


class Network:
    """What ports with Wi-Fi have as `network`."""

    STA_IF = 0
    joined = False

    class WLAN:
        def __init__(self, interface):
            assert interface == Network.STA_IF

        def active(self, on):
            Network.active = on

        def isconnected(self):
            return Network.joined

        def connect(self, ssid, password):
            assert (ssid, password) == ("home", "secret")
            Network.joined = True

        def disconnect(self):
            Network.joined = False

        def status(self, what):
            return -61


sys.modules["network"] = Network
radio = board.open_radio("home", "secret")
assert not radio.ready()
radio.start()
assert radio.ready() and radio.rssi() == -61
radio.stop()
assert not Network.active and not radio.ready()
board.deep_sleep(60000)
assert Machine.slept == 60000


class Registers:
    def __init__(self):
        self.values = {}

    def __getitem__(self, at):
        return self.values.get(at, 0)

    def __setitem__(self, at, value):
        self.values[at] = value


Machine.mem32 = Registers()
Machine.naps = []
Machine.lightsleep = staticmethod(Machine.naps.append)
for chip in ("RP2040", "RP2350"):
    board = hal_rp2.Rp2Board(Machine, path, lambda: 3700, chip)
    assert board.wake_reason() == "watchdog" and board.battery_mv() == 3700
    board.start_watchdog(8000)
    before = Machine.fed
    board.deep_sleep(9000)
    assert Machine.naps[-3:] == [4000, 4000, 1000] and Machine.fed == before + 3
    assert hal_rp2.Rp2Board(Machine, path, lambda: 3700, chip).wake_reason() == "deep-sleep"
    assert hal_rp2.Rp2Board(Machine, path, lambda: 3700, chip).wake_reason() == "watchdog"
assert sorted(Machine.mem32.values) == [0x4005800C, 0x400D800C]
del Machine.RTC.memory
board = hal.open_board(path)
board.keep(b"in a file")
assert hal.open_board(path).kept() == b"in a file"
print("passed")
