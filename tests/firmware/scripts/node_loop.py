"""A node's loop, turn by turn, on a clock that is moved by hand: node_loop.py FOLDER"""

import struct
import sys

from headtail_mcu import messages, node
from headtail_mcu.backoff import Backoff
from headtail_mcu.checkpoints import Checkpoints
from headtail_mcu.clock import DayClock
from headtail_mcu.config import DUTY, LINK
from headtail_mcu.crashes import Crashes
from headtail_mcu.duty import Duty
from headtail_mcu.errors import LinkError
from headtail_mcu.parts import STUCK_LINK_MS, STUCK_SAMPLE_MS
from headtail_mcu.ring import RingLog
from headtail_mcu.telemetry import Telemetry

folder = sys.argv[1] + "/"
SAID = []


class RestartError(Exception):
    pass


class Board:
    fed = 0

    def feed(self):
        Board.fed += 1

    def say(self, text):
        SAID.append(text)

    def restart(self):
        raise RestartError

    def battery_mv(self):
        return 3700


class Radio:
    on = False

    def start(self):
        Radio.on = True

    def ready(self):
        return Radio.on

    def stop(self):
        Radio.on = False

    def rssi(self):
        return -60


class Gateway:
    """Answers at once; `settles` or keeps the node waiting."""

    ready = True

    def __init__(self):
        self.there = True
        self.settles = True
        self.heard = []
        self._answers = []

    def open(self):
        if not self.there:
            raise LinkError("can't reach it")
        return self

    def send(self, data):
        kind, boot = struct.unpack_from("<BI", data)
        self.heard.append(kind)
        if kind == messages.HELLO:
            self._answers.append(struct.pack("<BIIH", messages.WELCOME, boot, 1800000000, 0))
        elif kind == messages.RECORD and self.settles:
            sequence = struct.unpack_from("<I", data, 5)[0]
            self._answers.append(struct.pack("<BII", messages.ACK, boot, sequence))
        elif kind == messages.RECORD:
            self._answers.append(struct.pack("<BII", messages.ACK, boot, 0))

    def poll(self, timeout_ms):
        return self._answers.pop(0) if self._answers else None

    def close(self):
        self.heard.append("closed")


class Slots:
    tries = None
    confirmed = 0

    def confirm(self):
        Slots.confirmed += 1
        Slots.tries = None


class Heads:
    head = front = None
    id, release = 7, 1
    slots = Slots()

    def decide(self):
        return messages.decision(self.id, 2, 60000), 2, 60000

    def begin(self, release, size):
        return None


class App:
    filled = True
    urgent = False

    def fill(self, head, front):
        return App.filled

    def decided(self, answer, score, where):
        assert (answer, where) == (2, "board")
        return App.urgent


class Parts:
    def __init__(self, gateway, sample_ms=1000, report_ms=60000):
        self.board, self.radio, self.links, self.heads, self.app = (
            Board(),
            Radio(),
            gateway,
            Heads(),
            App(),
        )
        self.log = RingLog(folder + "log.bin", 64, 64)
        self.duty = Duty(sample_ms, report_ms, 4, Backoff(2000, 60000, lambda n: b"\x80\0"), 0)
        self.checkpoints = Checkpoints({"sample": STUCK_SAMPLE_MS, "link": STUCK_LINK_MS}, 0)
        self.telemetry = Telemetry(self.board, "power-on")
        self.crashes, self.day = Crashes(folder + "crashes.bin"), DayClock(0)
        self.boot, self.wake = 5, "power-on"


class Ticks:
    time = 0

    def now(self):
        return Ticks.time


def made(gateway, always=False, **intervals):
    Ticks.time = 0
    parts = Parts(gateway, **intervals)
    link = {name: field[1] for name, field in LINK.items()}
    link["always_on"] = always
    config = {
        "name": "n",
        "duty": {name: field[1] for name, field in DUTY.items()},
        "link": link,
        "healthy_s": 60.0,
    }
    return node.Node(config, parts, 0), parts


def live(found, until_ms):
    """As `run` does, on this clock."""
    while Ticks.time < until_ms:
        wait = found.step(Ticks.time)
        assert 0 <= wait <= 1000
        if found._link is not None:
            found._listen(0, TICKS)
            wait = min(wait, 20)
        Ticks.time += max(wait, 1)


TICKS = Ticks()

# Samples wait for their batch, and the link is closed in between.
gateway = Gateway()
found, parts = made(gateway)
parts.crashes.started("power-on")
live(found, 20_000)
assert found.state == node.IDLE and not Radio.on
conversations = gateway.heard.count("closed")
assert gateway.heard.count(messages.HELLO) == gateway.heard.count(messages.BYE) == conversations
assert 4 <= conversations <= 7, conversations
assert parts.log.waiting < 4
assert Board.fed >= 20
assert Slots.confirmed
assert parts.day.seconds(Ticks.time) >= 1800000000
assert parts.crashes.count == 1
live(found, 61_000)
assert parts.crashes.count == 0

# What is urgent is told at once; so is the first decision of a head on trial.
for urgent, tries in ((True, None), (False, 1)):
    gateway = Gateway()
    found, parts = made(gateway, sample_ms=10_000, report_ms=3600_000)
    App.filled = False
    live(found, 5000)
    hellos = gateway.heard.count(messages.HELLO)
    App.filled, App.urgent, Slots.tries = True, urgent, tries
    live(found, 11_000)
    assert gateway.heard.count(messages.HELLO) == hellos + 1
    App.urgent = False
assert Slots.tries is None

# A link that stays: one hello, a report at each interval.
gateway = Gateway()
found, parts = made(gateway, always=True, report_ms=5000)
live(found, 31_000)
assert gateway.heard.count(messages.HELLO) == 1 and "closed" not in gateway.heard
records = gateway.heard.count(messages.RECORD)
assert 31 + 5 <= records <= 31 + 9, records

# A gateway that waits for its edge is waited for, if the link stays; else there is a limit.
gateway = Gateway()
gateway.settles = False
found, parts = made(gateway, always=True)
live(found, 600_000)
assert found.state == node.TALKING and gateway.heard.count(messages.HELLO) == 1
gateway = Gateway()
gateway.settles = False
found, parts = made(gateway)
live(found, 20_000)
assert any("could not settle" in text for text in SAID)

# Nobody there: records are kept, tries become rare, and after an hour the node starts anew.
del SAID[:]
gateway = Gateway()
gateway.there = False
found, parts = made(gateway, sample_ms=60_000)
fed = Board.fed
try:
    live(found, 4_000_000)
    raise AssertionError("went on")
except RestartError:
    pass
assert 3_600_000 <= Ticks.time < 3_700_000, Ticks.time
assert SAID[-1] == "no progress of link for too long"
assert 50 < len(SAID) < 250, len(SAID)
assert Board.fed - fed > 3000
assert parts.log.waiting >= 59
print("passed")
