"""How many instances there should be, and when: sans-IO, with `now` passed in.

demand       requests in progress of each segment, averaged over windows
autoscaler   a group's instances from its demand
idleness     how long groups are idle, and from that when the next request is likely
prewarm      when a group should have an instance though nothing asks for it yet
ladder       what starting an instance takes, from where it starts
"""
