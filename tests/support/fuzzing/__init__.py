"""Fuzzing: every parser of what comes from outside, fed with damaged copies of what is valid.

    python -m fuzzing                                   the targets
    python -m fuzzing wire --inputs 1000000             a long run (PYTHONPATH=tests/support)
    python -m fuzzing wire --replay FILE                one input that broke it

A target takes bytes and returns nothing; only typed errors may leave the parser. Inputs begin as
messages of its corpus, are changed by a seeded engine, and have their checksums put right again, so
that what lies behind these is reached. `tests/fuzz` runs each target briefly.
"""
