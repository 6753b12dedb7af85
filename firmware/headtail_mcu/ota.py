"""New heads over the air: signed, checked while they come in, tried before they stay.

    manifest line (JSON) -> signature over its bytes -> the blob, in pieces

The manifest: schema 1, name, version, release (a number that only grows), size, sha256,
min_firmware, ram (bytes of arena), key_id. `headtail export mcu --sign` writes all of it as one
`.update` file.
"""

import hashlib
import json
from binascii import hexlify, unhexlify

from .errors import StoreError
from .rsa import verifies

_SCHEMA = 1
_MAX_LINE = 1024
_MAX_SIGNATURE_LINE = 1024 + 2
_CHUNK = 512
_WHOLE_NUMBERS = ("schema", "release", "size", "ram")


class Update:
    """One head that is coming in. `keys`: moduli (bytes) by key id.

    Raises StoreError for what is not signed, not meant for this node, or older than what it has;
    what runs is not touched before `finish`.
    """

    def __init__(self, slots, manifest, signature, keys, firmware, max_bytes):
        self.manifest = _checked(manifest, signature, keys)
        if tuple(self.manifest["min_firmware"]) > firmware:
            raise StoreError("the head needs firmware {}".format(self.manifest["min_firmware"]))
        if not 0 < self.manifest["size"] <= max_bytes:
            raise StoreError(
                "a head of {} bytes, there is room for {}".format(self.manifest["size"], max_bytes)
            )
        slots.check(self.manifest["release"])
        self._slots = slots
        self._path = slots.path(slots.spare())
        self._file = open(self._path, "wb")
        self._hash = hashlib.sha256()
        self._left = self.manifest["size"]

    def write(self, chunk):
        """The next bytes of the blob."""
        if len(chunk) > self._left:
            self.abandon()
            raise StoreError("more bytes than the manifest says")
        try:
            self._file.write(chunk)
        except OSError as error:
            self.abandon()
            raise StoreError(f"no room for the head ({error})") from None
        self._hash.update(chunk)
        self._left -= len(chunk)

    def finish(self, test):
        """`test(path)` raises for a head that does not run here; then the switch, on trial."""
        self._file.flush()
        self._file.close()
        if self._left:
            raise StoreError(f"{self._left} bytes are missing")
        if hexlify(self._hash.digest()).decode() != self.manifest["sha256"]:
            raise StoreError("not the bytes that were signed")
        test(self._path)
        self._slots.switch(self.manifest["release"])

    def abandon(self):
        """Nothing has changed but the spare place."""
        self._file.close()


class Stream:
    """A `.update` file that comes in pieces of any size. `begin(manifest, signature)` gives the
    `Update` once both lines are there. Raises StoreError, and is of no more use then."""

    def __init__(self, begin):
        self._begin = begin
        self._lines = []
        self._text = b""
        self.update = None

    def write(self, chunk):
        if self.update is None:
            chunk = self._gather(chunk)
        if self.update is not None and chunk:
            self.update.write(chunk)

    def finish(self, test):
        """Gives the manifest; `test` as in `Update.finish`."""
        if self.update is None:
            raise StoreError("bytes are missing")
        self.update.finish(test)
        return self.update.manifest

    def abandon(self):
        if self.update is not None:
            self.update.abandon()

    def _gather(self, chunk):
        """What of the chunk lies behind the lines."""
        text = self._text + chunk
        while len(self._lines) < 2:
            end = text.find(b"\n")
            if (len(text) if end < 0 else end) > (
                _MAX_SIGNATURE_LINE if self._lines else _MAX_LINE
            ):
                raise StoreError(
                    "this is not an update"
                    if self._lines
                    else f"a manifest of {_MAX_LINE + 1} bytes or more"
                )
            if end < 0:
                self._text = text
                return b""
            self._lines.append(text[:end])
            text = text[end + 1 :]
        self._text = b""
        self.update = self._begin(self._lines[0], _unhex(self._lines[1].strip()))
        return text


def install(slots, path, keys, firmware, max_bytes, test):
    """Take a head from a `.update` file; gives its manifest. Raises StoreError, and what `test`
    does."""
    stream = Stream(lambda line, mark: Update(slots, line, mark, keys, firmware, max_bytes))
    with open(path, "rb") as file:
        chunk = file.read(_CHUNK)
        while chunk:
            stream.write(chunk)
            chunk = file.read(_CHUNK)
    return stream.finish(test)


def _checked(line, signature, keys):
    """The manifest, once its signature has proved right."""
    try:
        manifest = json.loads(line)
        modulus = keys.get(manifest["key_id"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError("not a manifest") from None
    if modulus is None:
        raise StoreError("signed with a key that this node does not know")
    if not verifies(hashlib.sha256(line).digest(), signature, modulus):
        raise StoreError("the signature is wrong")
    fields = [manifest.get(name) for name in _WHOLE_NUMBERS]
    least = manifest.get("min_firmware")
    if not all(isinstance(field, int) for field in fields) or not isinstance(least, list):
        raise StoreError("a manifest without what it has to have")
    if manifest["schema"] != _SCHEMA:
        raise StoreError("a manifest of schema {}: update the firmware".format(manifest["schema"]))
    return manifest


def _unhex(text):
    try:
        return unhexlify(text)
    except ValueError:
        raise StoreError("the signature is wrong") from None
