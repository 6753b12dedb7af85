"""The gateway between microcontrollers and an edge.

    node --link--> who is it? --> core: sessions, quotas, sequence --> records (a file, JSON lines)
                                    | features                ^
                                    v                         | answers
                                 uplink: a device of the fabric --> an edge

links      ZMTP, sealed packets over UDP, TCP and TLS, serial lines: bytes in, bytes out
node_book  who may connect and with what; followed while the gateway runs
vault      sealed packets, and that none is taken twice, not even after a restart
core       what a message means; knows no socket, file or clock
models     which head belongs to which bundle; updates that nodes are offered
uplink     the fabric's client in a thread of its own
"""
