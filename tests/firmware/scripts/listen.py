"""From samples to a decision: front end and head, as a node runs them.

listen.py HEAD SAMPLES    prints whether the exit took it, and what the outputs hold, in hex
"""

import sys

from headtail_mcu import backends, frontend, head

with open(sys.argv[1], "rb") as file:
    blob = file.read()
with open(sys.argv[2], "rb") as file:
    samples = file.read()

net, _ = head.open_head(blob, backends.backends())
front, _ = frontend.open_front(blob)
for at in range(0, len(samples), 480):
    front.push(samples[at : at + 480])
front.fill(net.input)
left = net.run()
print(int(left), *[bytes(net.levels(output)).hex() for output in net.outputs])
