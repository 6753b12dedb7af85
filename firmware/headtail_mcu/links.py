"""The link that the configuration asks for, opened as often as it is needed.

Only the modules of that link are imported; the settings were checked before.
"""

from binascii import unhexlify

from .errors import ConfigError


class Links:
    """Opens links for one start of the node. Counters of sealed packets go on from link to link."""

    def __init__(self, name, link, secrets, folder, board, boot):
        self._name = name
        self._link = link
        self._secrets = secrets
        self._board = board
        self._sealer = self._opener = self._uart = self._ca = None
        if link["security"] == "psk":
            from .envelope import Opener, Sealer

            psk = unhexlify(secrets["psk"])
            self._sealer = Sealer(psk, secrets["psk_id"], boot)
            self._opener = Opener(psk, secrets["psk_id"])
        if link["tls_ca"]:
            self._ca = _file(folder + link["tls_ca"])
        if link["kind"] == "serial":
            self._uart = board.open_uart(link)

    def open(self):
        """A link: `ready`, `send(data)`, `poll(timeout_ms)`, `close()`. Raises LinkError."""
        link = self._link
        if link["kind"] == "zmtp":
            return self._zmtp()
        from .packet_link import Datagrams, PacketLink, SerialLine, TcpStream

        if link["kind"] == "udp":
            carrier = Datagrams(link["host"], link["port"])
        elif link["kind"] == "tcp":
            carrier = TcpStream(link["host"], link["port"], link["timeout_s"] * 1000, self._ca)
        else:
            carrier = SerialLine(self._uart)
        return PacketLink(carrier, self._sealer, self._opener)

    def _zmtp(self):
        from .zmtp_link import ZmtpLink

        link = self._link
        return _Zmtp(
            ZmtpLink(
                link["host"],
                link["port"],
                self._mechanism(),
                send_timeout_ms=link["timeout_s"] * 1000,
                max_bytes=4096,
                heartbeat_ms=link["heartbeat_s"] * 1000,
            )
        )

    def _mechanism(self):
        from .mechanisms import Null, Plain

        if self._link["security"] == "none":
            return Null()
        if self._link["security"] == "plain":
            return Plain(self._name.encode(), self._secrets["password"].encode())
        from .curve import Curve

        public = self._secrets["curve_public"]
        return Curve(
            unhexlify(self._link["server_key"]),
            unhexlify(self._secrets["curve_secret"]),
            unhexlify(public) if public else None,
            self._board.random,
        )


class _Zmtp:
    """Messages of one part over ZMTP."""

    def __init__(self, link):
        self._link = link

    @property
    def ready(self):
        return self._link.ready

    def send(self, data):
        self._link.send(data)

    def poll(self, timeout_ms):
        parts = self._link.poll(timeout_ms)
        return None if parts is None else b"".join(parts)

    def close(self):
        self._link.close()


def _file(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        raise ConfigError(f"{path} is not there: copy it to the node") from None
