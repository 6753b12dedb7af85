"""Moving a text to another engine while it goes on being written: sans-IO.

stages     one move: what to copy next, when to pause, when it is done
policy     which texts move where: drain, hand-off, priority and balance are one mechanism
"""
