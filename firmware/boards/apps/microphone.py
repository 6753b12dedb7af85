"""An app for heads that listen: an I2S microphone (INMP441, SPH0645 and the like), 16 bits, mono.

    "app": {"module": "microphone", "options": {"sck": 16, "ws": 17, "sd": 18, "step_ms": 250}}

Every `step_ms` of sound the last patch is looked at; with `duty.sample_s` below that the node
listens without a gap.
"""

from machine import I2S, Pin

_BUFFERED_MS = 500


def open(board, options):
    """Pins as numbers; `led`, if it is there, shows what was heard."""
    return Microphone(board, options)


class Microphone:
    def __init__(self, board, options):
        self._board = board
        self._options = options
        self._led = Pin(options["led"], Pin.OUT) if "led" in options else None
        self._i2s = None
        self._piece = bytearray(0)

    def fill(self, head, front):
        if self._i2s is None:
            self._start(front.rate)
        # Waits for what is still to be heard, at most `step_ms`.
        self._i2s.readinto(self._piece)
        front.push(self._piece, self._board.feed)
        if not front.ready:
            return False
        front.fill(head.input)
        return True

    def decided(self, answer, score, where):
        self._board.say(f"heard {answer} ({score * 100 // 65535} %, {where})")
        if self._led is not None:
            self._led.value(answer % 2)
        return True  # somebody may be waiting for it

    def _start(self, rate):
        options = self._options
        self._i2s = I2S(
            options.get("id", 0),
            sck=Pin(options["sck"]),
            ws=Pin(options["ws"]),
            sd=Pin(options["sd"]),
            mode=I2S.RX,
            bits=16,
            format=I2S.MONO,
            rate=rate,
            ibuf=2 * rate * _BUFFERED_MS // 1000,
        )
        self._piece = bytearray(2 * rate * options.get("step_ms", 250) // 1000)
