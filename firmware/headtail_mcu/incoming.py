"""A new head on its way in, a piece at a time, as the gateway is asked for it."""

from .errors import HeadError, StoreError


class Incoming:
    """The update that comes in, if one does. `complete`: all of it was there and tested, for which
    the old head was dropped, so the node has to restart, with whichever head proved good."""

    def __init__(self, heads):
        self._heads = heads
        self._stream = None
        self.complete = False
        self._release = self._size = self._have = 0

    def offered(self, release, size, talk):
        """Ask for the first piece, if the head is wanted here."""
        if self._stream is not None:
            return
        self._stream = self._heads.begin(release, size)
        if self._stream is not None:
            self._release, self._size, self._have = release, size, 0
            talk.want(release, 0)

    def piece(self, fields, talk):
        """What became of the update, or None while it goes on."""
        release, offset, data = fields
        if self._stream is None or release != self._release or offset != self._have or not data:
            return None
        try:
            self._stream.write(data)
            self._have += len(data)
            if self._have < self._size:
                talk.want(release, self._have)
                return None
            self.complete = True
            self._heads.finish(self._stream)
            outcome = f"update {release} taken"
        except (StoreError, HeadError, MemoryError) as error:
            self._stream.abandon()
            self._heads.decline(release)
            outcome = f"update {release} refused: {error}"
        self._stream = None
        talk.got()
        return outcome

    def abandon(self):
        """The link is over; another one begins anew."""
        if self._stream is not None:
            self._stream.abandon()
            self._stream = None
