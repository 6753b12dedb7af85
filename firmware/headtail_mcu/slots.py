"""Two places for a head, one of which runs: a new one is tried, and gone back from if it fails.

    fresh -> (boot, tries 1..3) -> confirmed
                                -> reverted to the other place, and its release refused from then on

What is decided is in one small file that is replaced whole, so a power cut leaves the old decision
or the new one.
"""

import json

from .errors import StoreError
from .kept_file import KeptFile

TRIES = 3
_FIELDS = ("active", "release", "tries", "previous", "floor", "refused")


class Slots:
    """`active` is "a", "b" or None; `floor` is the highest release that was ever confirmed."""

    def __init__(self, folder):
        self._folder = folder
        self._kept = KeptFile(folder + "/slots.json")
        self.active, self.release, self.tries = None, 0, None
        self.previous, self.floor, self.refused = None, 0, 0
        self._load()

    def boot(self):
        """The path of the head to run now, or None. Counts a try before it gives a new one out."""
        if self.tries is not None:
            if self.tries >= TRIES:
                self.revert()
            else:
                self.tries += 1
                self._save()
        return None if self.active is None else self.path(self.active)

    def confirm(self):
        """The head that runs does its work; nothing older is accepted from now on."""
        if self.tries is not None:
            self.tries, self.previous = None, self.active
            self.floor = max(self.floor, self.release)
            self._save()

    def revert(self):
        """Back to the head before; the release that failed is not taken again."""
        if self.tries is None:
            raise StoreError("the head that runs is confirmed: there is nothing to go back from")
        self.refused = self.release
        self.active, self.release, self.tries = self.previous, self.floor, None
        self._save()

    def check(self, release):
        """Whether a new release may come in. Raises StoreError."""
        if self.tries is not None:
            raise StoreError("a new head is being tried: confirm it first")
        if release <= self.floor or release == self.refused:
            raise StoreError(f"release {release} is old or failed here; this node has {self.floor}")

    def spare(self):
        """The name of the place that does not run."""
        return "b" if self.active == "a" else "a"

    def path(self, name):
        return f"{self._folder}/{name}.head"

    def switch(self, release):
        """To what lies in the spare place, on trial."""
        self.active, self.previous = self.spare(), self.active
        self.release, self.tries = release, 0
        self._save()

    def _load(self):
        data = self._kept.read()
        if not data:
            return
        try:
            state = json.loads(data)
            for field in _FIELDS:
                setattr(self, field, state[field])
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{self._folder}/slots.json is damaged: delete it") from None

    def _save(self):
        state = {field: getattr(self, field) for field in _FIELDS}
        self._kept.write(json.dumps(state).encode())
