"""Accuracy against payload bytes: what a bundle's cuts need, and what sending the picture needs.

    sample -> method -> bytes, outputs -> answer          for every method and sample (evaluation)
    answers -> tally -> agreement, labelled measure       by method (detector, classifier)
    points -> curve -> bytes at equal agreement           with bootstrap intervals (comparison)

Needs no torch; the rivals need pillow, the chart matplotlib (extra `bench`).
"""
