"""The sub-commands of `headtail`, one module each.

A module has `add(subparsers)`, which adds the command's parser and gives every action of it a
default `handler`: a function that takes the parsed arguments and returns the exit status. It
prints its results to standard output and raises HeadtailError for what a person can mend.
`headtail.cli` lists the modules and imports the one that is asked for.
"""
