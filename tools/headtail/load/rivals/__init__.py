"""The same tail behind other people's servers, each written as its documentation shows.

Every module is a program: `python -m headtail.load.rivals.NAME --bundle PATH --cut CUT --port N`.
"""
