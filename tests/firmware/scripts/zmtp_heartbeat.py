"""Stays connected and says how it ends: `heartbeat.py PORT HEARTBEAT_MS LISTEN_MS`."""

import sys

from headtail_mcu.errors import LinkError
from headtail_mcu.mechanisms import Null
from headtail_mcu.zmtp_link import ZmtpLink

port, heartbeat_ms, listen_ms = (int(word) for word in sys.argv[1:])
link = ZmtpLink("127.0.0.1", port, Null(), identity=b"node-1", heartbeat_ms=heartbeat_ms)
link.wait_ready(20000)
print("ready")
try:
    print("got", link.poll(listen_ms))
except LinkError as error:
    print("lost:", error)
