"""An app without a sensor: samples out of a file, one after another, for rehearsals and tests.

Any app has `open(board, options)`, which gives an object with

    fill(head, front)               writes a sample's levels into head.input; False for none now.
                                    `front` makes levels of what a sensor gives (see `frontend`);
                                    None for a head that has none
    decided(answer, score, where)   acts on an answer of the "board" or of the "edge"; True to have
                                    it reported at once
"""

import builtins

_PUSHED = 512


def open(board, options):
    """`options`: file, and print. The file holds what the front end takes, else levels."""
    return Replay(options["file"], board if options.get("print") else None)


class Replay:
    def __init__(self, path, console):
        self._path = path
        self._console = console
        self._at = 0

    def fill(self, head, front):
        if front is None:
            return self._read(head.input)
        piece = bytearray(_PUSHED)
        front.clear()
        while not front.ready:
            if not self._read(piece):
                return False
            front.push(piece)
        front.fill(head.input)
        return True

    def decided(self, answer, score, where):
        if self._console is not None:
            self._console.say(f"decided {answer} {score} {where}")
        return False

    def _read(self, room):
        """Fill it with what comes next; from the beginning again behind the end."""
        with builtins.open(self._path, "rb") as file:
            file.seek(self._at)
            count = file.readinto(room)
            if count < len(room) and self._at:
                self._at = 0
                file.seek(0)
                count = file.readinto(room)
        self._at += count
        return count == len(room)
