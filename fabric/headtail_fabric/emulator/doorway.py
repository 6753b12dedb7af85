"""A listening port that can be shut without being given up."""

import socket
from typing import Final

from headtail_fabric.emulator.address import LoopbackAddress
from headtail_fabric.emulator.conditions import PACKET_BYTES
from headtail_fabric.peer.errors import BindError

_BACKLOG: Final = 128
_RECEIVE_BUFFER_BYTES: Final = 64 * 1024


def tcp_socket(family: socket.AddressFamily) -> socket.socket:
    """A socket of an emulated link, not blocking, that buffers little of what it receives.

    The receiver's buffer would be the first stretch of the link's queue, and hide from the sender
    that the link is slow. The small segments go with it: those of the loopback interface are as
    large as the buffer, and TCP would wait for a probe each time the window is smaller than one.
    """
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, PACKET_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Doorway:
    """Listens while it is open; while it is shut the kernel refuses connections.

    A second socket is bound to the port all the while and never listens, so that the port stays
    ours. Raises BindError.
    """

    def __init__(self, address: LoopbackAddress) -> None:
        self._listener: socket.socket | None = None
        self._anchor = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            self._anchor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._anchor.bind((address.host, address.port))
            self.address = LoopbackAddress(address.host, self._anchor.getsockname()[1])
            self.open()
        except OSError as error:
            self._anchor.close()
            raise BindError(f"can't listen on {address}: {error.strerror}") from None

    @property
    def listener(self) -> socket.socket | None:
        """To wait for connections on; None while it is shut."""
        return self._listener

    def open(self) -> None:
        """Listen. Raises OSError."""
        if self._listener is not None:
            return
        listener = tcp_socket(self.address.family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.address.host, self.address.port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener

    def shut(self) -> None:
        """Refuse connections from now on, those that nobody has accepted yet included."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """Give up the port."""
        self.shut()
        self._anchor.close()
