"""A DC-net that hides which client on the LAN is speaking: client, relay and guard."""
