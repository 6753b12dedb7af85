"""The loop: look, show, wait."""

import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

from headtail.top.keyboard import Keyboard
from headtail.top.reading import Reading, Unreachable, read
from headtail.top.scrape import Scrape, Scraper
from headtail.top.screen import screen

_QUIT: Final = frozenset("qQ\x03\x04")
_KINDS: Final = {
    "DeviceReading": "device",
    "EdgeReading": "edge",
    "CloudReading": "cloud",
    "Unreachable": "unreachable",
}


class Watch:
    """Looks again and again. Without an earlier look there are no rates, so `once` takes two."""

    def __init__(self, scraper: Scraper, *, every_s: float, console: Console) -> None:
        self._scraper = scraper
        self._every_s = every_s
        self._console = console
        self._before: dict[str, Scrape] = {}

    def live(self, keyboard: Keyboard) -> None:
        """On the whole screen, until q is pressed."""
        with Live(console=self._console, screen=True, auto_refresh=False) as view:
            while True:
                view.update(self._shown(self.look(), hint="q quits"), refresh=True)
                if set(keyboard.wait(self._every_s)) & _QUIT:
                    return

    def once(self, keyboard: Keyboard, *, as_json: bool) -> bool:
        """Two looks, the second is printed; False when nothing could be read."""
        self.look()
        keyboard.wait(self._every_s)
        readings = self.look()
        self.print(readings, as_json=as_json)
        return not all(isinstance(reading, Unreachable) for reading in readings)

    def lines(self, keyboard: Keyboard) -> None:
        """One line of JSON each time, until interrupted."""
        while not set(keyboard.wait(self._every_s)) & _QUIT:
            self.print(self.look(), as_json=True)

    def look(self) -> list[Reading]:
        """What there is to see now."""
        readings = []
        for scrape in self._scraper.look():
            name = str(scrape.address)
            readings.append(read(scrape, self._before.get(name)))
            self._before[name] = scrape
        return readings

    def print(self, readings: list[Reading], *, as_json: bool) -> None:
        """To standard output."""
        if as_json:
            found = [{"kind": _KINDS[type(each).__name__], **asdict(each)} for each in readings]
            sys.stdout.write(json.dumps({"time": _now().isoformat(), "targets": found}) + "\n")
            sys.stdout.flush()
        else:
            self._console.print(self._shown(readings, hint=""))

    def _shown(self, readings: list[Reading], *, hint: str) -> RenderableType:
        status = f"headtail top  {_now():%H:%M:%S}  every {self._every_s:g} s  {hint}".rstrip()
        return screen(readings, width=self._console.width, status=status)


def _now() -> datetime:
    return datetime.now().astimezone().replace(microsecond=0)
