"""The start of a node, and what happens when it fails.

    config.json  secrets.json   what the node is to do and to be
    crashes.bin  boot.bin       counters that survive everything
    log.bin      heads/         records that wait, heads that came over the air

Modules are imported when they are needed: the settings' tables are gone before the head is loaded,
and the head lies in the heap before the rest does, while there are large pieces.
"""

import gc
import sys

from .crashes import Crashes
from .hal import open_board


def main(folder="", board=None, safe_ms=600000):
    """Run the node in `folder` for good. After three crashes in a row it does nothing for
    `safe_ms`, so that it can be reached over its serial line, and then tries once more."""
    folder = folder + "/" if folder and not folder.endswith("/") else folder
    board = board or open_board(folder + "kept.bin")
    crashes = Crashes(folder + "crashes.bin")
    if crashes.safe:
        last = crashes.text or "not known"
        board.say(f"safe mode after {crashes.count} crashes, the last: {last}")
        board.sleep_ms(safe_ms)
        crashes.last_chance()
        board.restart()
    wake, before = board.wake_reason(), crashes.text
    crashes.started(wake)
    try:
        _run(folder, board, crashes, wake, before)
    except Exception as error:  # noqa: BLE001 - whatever it was, the node starts again
        crashes.crashed(f"{type(error).__name__}: {error}")
        sys.print_exception(error)
        board.restart()


def _run(folder, board, crashes, wake, before):
    config, secrets = _settings(folder)
    if config["watchdog_s"]:
        board.start_watchdog(int(config["watchdog_s"] * 1000))
    from .heads import Heads

    heads = Heads(config["head"], folder, board.feed)
    heads.open()
    from . import messages
    from .clock import Ticks
    from .node import Node
    from .parts import Parts

    ticks = Ticks()
    parts = Parts(config, secrets, folder, board, heads, crashes, wake, ticks.now())
    if before and wake != "deep-sleep":
        parts.log.append(0, messages.note("crashed: " + before))
    board.say("{}: start {}, {}, {}".format(config["name"], parts.boot, wake, heads.backend))
    Node(config, parts, ticks.now()).run(ticks)


def _settings(folder):
    """(config, secrets); the module that checked them is dropped, as it is of no more use."""
    from . import config

    found = config.load(folder + "config.json", folder + "secrets.json")
    del sys.modules[config.__name__]
    package = sys.modules[__name__.rsplit(".", 1)[0]]
    if hasattr(package, "config"):
        delattr(package, "config")
    del config
    gc.collect()
    return found
