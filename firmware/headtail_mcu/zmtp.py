"""ZMTP 3.1 (ZeroMQ RFC 37), the client's side, without a socket.

    greeting -> handshake by the mechanism -> messages, and PING / PONG

`receive(data, now)` takes what came, `to_send()` gives what has to go out, `next_message()` what
arrived whole. Times are milliseconds of a clock that does not wrap; the shell sees to that.
"""

from .errors import LinkError, RefusedError

MORE = 1
LONG = 2
COMMAND = 4
_GREETING_BYTES = 64
_SIGNATURE = b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f"
_PEERS = {
    b"DEALER": (b"ROUTER", b"DEALER", b"REP"),
    b"PUSH": (b"PULL",),
    b"SUB": (b"PUB", b"XPUB"),
}
_LIBZMQ_ERROR = b"^RROR"
"""What libzmq 4.3 writes for PLAIN: its source has \\x5ERROR, of which C makes this."""
_MAX_PARTS = 32
_MAX_WAITING = 16
_SEGMENT = 1460


class Session:
    """One connection of a DEALER, PUSH or SUB. Raises LinkError, and is of no more use then.

    RefusedError: the server refused the credentials. `max_bytes` limits each frame that comes in.
    `heartbeat_ms`: how long nothing may come before the server is asked for a sign of life; after
    three times that without one the connection is given up. 0 for never.
    """

    def __init__(
        self, mechanism, socket_type=b"DEALER", identity=b"", max_bytes=65536, heartbeat_ms=0
    ):
        self._mechanism = mechanism
        self._type = socket_type
        self._identity = identity
        self._max_bytes = max_bytes
        self._heartbeat_ms = heartbeat_ms
        self._heard = None
        self._asked = None
        self._greeted = False
        self._in = bytearray()
        self._out = [_greeting(mechanism.NAME)]
        self._parts = []
        self._messages = []
        self.ready = False

    def receive(self, data, now):
        """Bytes from the server; b"" is the end of the connection."""
        if not data:
            if self._greeted:
                raise LinkError("the server closed the connection")
            name = _text(self._mechanism.NAME)
            raise LinkError(f"the server hung up; it may want another mechanism than {name}")
        self._heard, self._asked = now, None
        self._in.extend(data)
        if not self._greeted:
            if len(self._in) < _GREETING_BYTES:
                self._check_signature()
                return
            self._greet()
        self._work()

    def to_send(self):
        """The next bytes that have to go out, b"" for none: frames that fit into one segment
        together, else one frame, so that nothing large is copied."""
        out = self._out
        count, size = 0, 0
        while count < len(out) and (not count or size + len(out[count]) <= _SEGMENT):
            size += len(out[count])
            count += 1
        data = out[0] if count == 1 else b"".join(out[:count])
        del out[:count]
        return data

    def send(self, parts):
        """A message of one or more parts; only when `ready`."""
        if not self.ready:
            raise LinkError("no message before the handshake is done")
        last = len(parts) - 1
        for index, part in enumerate(parts):
            self._out.append(self._mechanism.frame(MORE if index < last else 0, part))

    def next_message(self):
        """The parts of a message as a list, or None."""
        if not self._messages:
            return None
        message = self._messages.pop(0)
        self._work()
        return message

    def on_timer(self, now):
        """Milliseconds until the next call, or None for never. Raises LinkError for silence."""
        if not self._heartbeat_ms or not self.ready:
            return None
        if self._heard is None:
            self._heard = now
        silence = now - self._heard
        if silence >= 3 * self._heartbeat_ms:
            raise LinkError(f"no sign of life for {silence} ms")
        if silence >= self._heartbeat_ms and (
            self._asked is None or now - self._asked >= self._heartbeat_ms
        ):
            ttl = 3 * self._heartbeat_ms // 100
            body = b"\x04PING" + min(ttl, 65535).to_bytes(2, "big")
            self._out.append(self._mechanism.frame(COMMAND, body))
            self._asked = now
        asked = self._heard if self._asked is None else self._asked
        return max(1, asked + self._heartbeat_ms - now)

    def _work(self):
        """Take the frames that are there, while few messages wait."""
        while len(self._messages) < _MAX_WAITING:
            found = self._next_frame()
            if found is None:
                return
            self._take(*found)

    def _check_signature(self):
        came = bytes(self._in[:1]) + bytes(self._in[9:10])
        if came[:1] not in (b"", b"\xff") or (len(came) == 2 and not came[1] & 1):
            raise LinkError("not a ZeroMQ server")

    def _greet(self):
        self._check_signature()
        if self._in[10] < 3:
            raise LinkError(f"the server speaks ZMTP {self._in[10]}, not 3")
        theirs = bytes(self._in[12:32]).rstrip(b"\x00")
        if theirs != self._mechanism.NAME:
            mine = _text(self._mechanism.NAME)
            raise RefusedError(f"the server wants {_text(theirs)}, this node is set to {mine}")
        self._in = self._in[_GREETING_BYTES:]
        self._greeted = True
        self._reply(self._mechanism.start(self._metadata()))

    def _metadata(self):
        properties = _property(b"Socket-Type", self._type)
        if self._type == b"DEALER":
            properties += _property(b"Identity", self._identity)
        return properties

    def _next_frame(self):
        """(flags, body) of the next whole frame, or None."""
        data = self._in
        if len(data) < 2:
            return None
        flags = data[0]
        if flags > 7 or flags & (COMMAND | MORE) == COMMAND | MORE:
            raise LinkError(f"frame with flags {flags}")
        begin = 9 if flags & LONG else 2
        if len(data) < begin:
            return None
        size = int.from_bytes(bytes(data[1:begin]), "big")
        if size > self._max_bytes:
            raise LinkError(f"frame of {size} bytes, {self._max_bytes} allowed")
        if len(data) < begin + size:
            return None
        body = data[begin : begin + size]
        self._in = data[begin + size :]
        return flags & ~LONG, body

    def _take(self, flags, body):
        if not self.ready:
            if not flags & COMMAND:
                raise LinkError("a message before the handshake is done")
            self._handshake(body)
            return
        flags, body = self._mechanism.opened(flags, body)
        if flags & COMMAND:
            self._command(body)
            return
        self._parts.append(body)
        if len(self._parts) > _MAX_PARTS:
            raise LinkError(f"a message of more than {_MAX_PARTS} parts")
        if not flags & MORE:
            self._messages.append(self._parts)
            self._parts = []

    def _handshake(self, body):
        if body[:5] == _LIBZMQ_ERROR:
            body = b"\x05ERROR" + body[5:]
        name, data = split_command(body)
        if name == b"ERROR":
            reason = data[1 : 1 + data[0]] if data else b""
            raise RefusedError("the server refused this node: " + (_text(reason) or "no reason"))
        done, answer = self._mechanism.handshake(name, data)
        self._reply(answer)
        if done is not None:
            self._check_peer(parse_metadata(done))
            self.ready = True

    def _check_peer(self, properties):
        theirs = properties.get(b"socket-type", b"")
        if theirs not in _PEERS[self._type]:
            raise RefusedError(f"a {_text(self._type)} can't talk to a {_text(theirs)}")

    def _command(self, body):
        name, data = split_command(body)
        if name == b"PING" and 2 <= len(data) <= 18:
            self._out.append(self._mechanism.frame(COMMAND, b"\x04PONG" + data[2:]))
        elif name == b"ERROR":
            raise LinkError(f"the server gave up: {_text(data[1:])}")

    def _reply(self, command):
        if command is not None:
            self._out.append(frame(COMMAND, command))


def frame(flags, body):
    """The bytes of a frame."""
    return header(flags, len(body)) + body


def header(flags, size):
    """What goes before a frame's body."""
    if size < 256:
        return bytes((flags, size))
    return bytes((flags | LONG,)) + size.to_bytes(8, "big")


def split_command(body):
    """(name, data). Raises LinkError."""
    if not body or not body[0] or len(body) < 1 + body[0]:
        raise LinkError("a command without a name")
    return bytes(body[1 : 1 + body[0]]), bytes(body[1 + body[0] :])


def parse_metadata(data):
    """Values by name in lower case. Raises LinkError."""
    found, at = {}, 0
    while at < len(data):
        name_end = at + 1 + data[at]
        value_at = name_end + 4
        size = int.from_bytes(data[name_end:value_at], "big")
        if value_at + size > len(data):
            raise LinkError("properties that end too early")
        found[data[at + 1 : name_end].lower()] = data[value_at : value_at + size]
        at = value_at + size
    return found


def _greeting(mechanism):
    named = mechanism + bytes(20 - len(mechanism))
    return _SIGNATURE + b"\x03\x01" + named + bytes(32)


def _property(name, value):
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _text(data):
    return "".join(chr(b) if 32 <= b < 127 else "?" for b in data)
