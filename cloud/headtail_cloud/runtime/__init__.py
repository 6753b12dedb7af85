"""Where engines live and who drives them.

in_process    one engine, in a thread of this process
"""
