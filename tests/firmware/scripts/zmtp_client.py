"""A DEALER that sends messages of many sizes and wants each of them back.

zmtp_client.py PORT MECHANISM [...]   null | plain USER PASSWORD | curve SERVER_KEY SECRET_KEY
"""

import sys
from binascii import unhexlify

from headtail_mcu.curve import Curve
from headtail_mcu.errors import LinkError
from headtail_mcu.mechanisms import Null, Plain
from headtail_mcu.zmtp_link import ZmtpLink

SIZES = (0, 1, 254, 255, 256, 257, 1023, 4096, 16000)
port, mechanism, *words = sys.argv[1:]


def made():
    if mechanism == "plain":
        return Plain(words[0].encode(), words[1].encode())
    if mechanism == "curve":
        return Curve(unhexlify(words[0]), unhexlify(words[1]))
    return Null()


link = ZmtpLink("127.0.0.1", int(port), made(), identity=b"node-1")
try:
    link.wait_ready(20000)
except LinkError as error:
    print(type(error).__name__, error)
    sys.exit(0)
for size in SIZES:
    payload = bytes(i * 7 & 255 for i in range(size))
    link.send(b"echo", payload)
    assert link.poll(20000) == [b"echo", payload], size
for i in range(40):
    link.send(b"burst", bytes((i,)))
for i in range(40):
    assert link.poll(20000) == [b"burst", bytes((i,))], i
assert link.poll(0) is None
link.close()
print("passed")
