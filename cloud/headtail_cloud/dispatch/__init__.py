"""Many instances as one: which of them gets a request, and what becomes of those that fail.

placement   the formula
member      one instance: its scheduler, and where it stands
group       the instances of one engine: how many, and what starting one takes
fleet       all of them: events in, actions out
"""
