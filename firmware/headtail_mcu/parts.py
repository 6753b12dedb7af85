"""What a node is made of, from its settings; the head comes first and from elsewhere, as it needs
the largest pieces of the heap."""

from .backoff import Backoff
from .checkpoints import Checkpoints
from .clock import DayClock
from .duty import Duty
from .errors import ConfigError
from .kept_file import KeptFile, next_boot
from .links import Links
from .ring import RingLog
from .telemetry import Telemetry

STUCK_SAMPLE_MS = 60000
STUCK_LINK_MS = 3600000
_DAY_BYTES = 8


class Parts:
    """Raises ConfigError, StoreError with what is wrong."""

    def __init__(self, config, secrets, folder, board, heads, crashes, wake, now):
        self.board, self.heads, self.crashes, self.wake = board, heads, crashes, wake
        kept = board.kept() if wake == "deep-sleep" else b""
        duty = config["duty"]
        self.boot = next_boot(KeptFile(folder + "boot.bin"))
        self.log = open_log(config["log"], folder, heads.largest)
        self.day = DayClock(now, kept)
        backoff = Backoff(ms(duty["retry_s"]), ms(duty["retry_most_s"]), board.random)
        self.duty = Duty(
            ms(duty["sample_s"]),
            ms(duty["report_s"]),
            duty["batch"],
            backoff,
            now,
            kept[_DAY_BYTES:],
        )
        self.checkpoints = Checkpoints({"sample": STUCK_SAMPLE_MS, "link": STUCK_LINK_MS}, now)
        self.telemetry = Telemetry(board, wake)
        self.radio = board.open_radio(secrets["wifi_ssid"], secrets["wifi_password"])
        self.links = Links(config["name"], config["link"], secrets, folder, board, self.boot)
        self.app = _app(config["app"], board)


def open_log(settings, folder, largest):
    """The log of `settings`, which has to hold records of `largest` bytes. Raises ConfigError,
    StoreError."""
    log = RingLog(folder + settings["file"], settings["slots"], settings["record_bytes"])
    if log.capacity < largest:
        log.close()
        raise ConfigError(
            f"log.record_bytes leave {log.capacity} for a record, the head's features "
            f"need {largest}: raise it and delete the log"
        )
    return log


def ms(seconds):
    return int(seconds * 1000)


def _app(app, board):
    """The board's own code: a module with `open(board, options)`."""
    try:
        module = __import__(app["module"], None, None, ("open",))
    except ImportError:
        raise ConfigError(f"app.module {app['module']} is not there: copy it to the node") from None
    return module.open(board, app["options"])
