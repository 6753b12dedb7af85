"""Messages of nodes and gateways against frozen bytes: message_vectors.py VECTORS"""

import json
import sys
from binascii import hexlify, unhexlify

from headtail_mcu import messages
from headtail_mcu.errors import LinkError

with open(sys.argv[1]) as file:
    vectors = json.load(file)

for case in vectors["node"]:
    arguments = [unhexlify(a[4:]) if str(a).startswith("hex:") else a for a in case["arguments"]]
    made = getattr(messages, case["call"])(*arguments)
    assert hexlify(made).decode() == case["bytes"], case
for case in vectors["gateway"]:
    kind, boot, fields = messages.decode(unhexlify(case["bytes"]))
    told = [hexlify(f).decode() if isinstance(f, bytes) else f for f in fields]
    assert [kind, boot, told] == case["decoded"], (case, kind, boot, told)
for text in vectors["refused_by_nodes"]:
    try:
        messages.decode(unhexlify(text))
    except LinkError:
        continue
    raise AssertionError(text)
print("passed")
