"""Several edges behind one `ClientPort`: the best one is used, and another when it fails.

chooser   which edge: health, load and round trip, with hysteresis (a pure core)
core      requests and events of all of them, and what moves from one to another (sans-IO)
client    a listening thread for each, around the core
"""

from headtail_fabric.fleet.chooser import EdgeChooser
from headtail_fabric.fleet.client import FleetClient
from headtail_fabric.fleet.core import FleetCore, Member

__all__ = ["EdgeChooser", "FleetClient", "FleetCore", "Member"]
