"""Which head runs, what it says of a sample, and how a new one comes in."""

import gc
import hashlib
import os
from binascii import hexlify

from . import __version__, messages, ota
from .backends import backends
from .errors import ConfigError, HeadError, StoreError
from .frontend import open_front
from .head import FEATURES, LOGITS, open_head
from .slots import Slots

FIRMWARE = tuple(int(part) for part in __version__.split("."))


class Heads:
    """`settings`: the configuration's `head`. `fed`: called while a head computes."""

    def __init__(self, settings, folder, fed):
        self._settings = settings
        self._folder = folder
        self._fed = fed
        _make_folder(folder + settings["slots"])
        self.slots = Slots(folder + settings["slots"])
        self._keys = _moduli(settings["trust"], folder)
        self._declined = 0
        self.head, self.front, self.backend, self.id = None, None, "", 0
        self._features = self._logits = None

    @property
    def release(self):
        """Of the head that runs; 0 for the one that was copied here with the configuration."""
        return self.slots.release if self.slots.active else 0

    @property
    def largest(self):
        """Bytes of its longest record."""
        return 9 if self._features is None else 5 + self._features.size

    def open(self):
        """The head to run. One on trial that fails is gone back from. Raises HeadError."""
        path = self.slots.boot()
        while path is not None:
            try:
                return self._load(path)
            except (HeadError, MemoryError, OSError) as error:
                if self.slots.tries is None:
                    raise HeadError(f"the confirmed head does not run: {error}") from None
                self.slots.revert()
                path = self.slots.boot()
        if not self._settings["file"]:
            raise ConfigError("head.file is not set, and no update has come in")
        try:
            return self._load(self._folder + self._settings["file"])
        except OSError:
            raise ConfigError("{} is not there".format(self._settings["file"])) from None

    def decide(self):
        """(record's payload, class or None, score) of the sample in the head's input."""
        exited = self.head.run(self._fed)
        if not exited and self._features is not None:
            return messages.features(self.id, self.head.levels(self._features)), None, 0
        answer = self.head.answer(self.head.exit_output if exited else self._logits)
        score = self.head.confidence() if exited else 0
        return messages.decision(self.id, answer, score), answer, score

    def begin(self, release, size):
        """A stream for an update that was offered, or None when it is not wanted."""
        if not self._keys or release == self._declined or size > 2 * self._settings["max_bytes"]:
            return None
        try:
            self.slots.check(release)
        except StoreError:
            return None
        return ota.Stream(
            lambda line, signature: ota.Update(
                self.slots, line, signature, self._keys, FIRMWARE, self._settings["max_bytes"]
            )
        )

    def decline(self, release):
        """It did not prove good: not again in this boot."""
        self._declined = release

    def finish(self, stream):
        """Test what came in, and switch to it. There is no head to run afterwards, as two would
        need too much memory: restart. Raises StoreError, HeadError, MemoryError."""
        self.head = self.front = self._features = self._logits = None
        gc.collect()
        stream.finish(self._load)

    def _load(self, path):
        self.head = self.front = self._features = self._logits = None
        gc.collect()
        # Exactly as much as there is, in one piece: reading on to the end takes twice the room.
        blob = bytearray(os.stat(path)[6])
        with open(path, "rb") as file:
            file.readinto(blob)
        head, self.backend = open_head(blob, backends(), self._fed)
        for output in head.outputs:
            if output.role == FEATURES:
                self._features = output
            elif output.role == LOGITS:
                self._logits = output
        if self._logits is None and self._features is None:
            raise HeadError("the head has neither features nor logits")
        self.front, steps = open_front(blob)
        self.backend += f", front {steps}" if steps else ""
        self.id = int.from_bytes(blob[-4:], "little")
        self.head = head


def _make_folder(path):
    try:
        os.mkdir(path)
    except OSError:
        os.listdir(path)  # it is there, or this says why not


def _moduli(paths, folder):
    keys = {}
    for path in paths:
        try:
            with open(folder + path, "rb") as file:
                modulus = file.read(1024)
        except OSError:
            raise ConfigError(f"{path} (in head.trust) is not there") from None
        keys[hexlify(hashlib.sha256(modulus).digest()).decode()[:16]] = modulus
    return keys
