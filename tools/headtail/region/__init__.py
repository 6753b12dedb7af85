"""Who wins where: a device, an edge and a link between them in simulated time.

samples      what every way really cost on this machine, photo by photo
link         the link emulator's model, driven without sockets
replay       frames through one contender
cells        every contender on every link and device, and how they compare
chart        the winner map
"""
