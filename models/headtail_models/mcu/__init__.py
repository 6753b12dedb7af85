"""Heads for microcontrollers: from ONNX to the blob that the firmware runs.

onnx_reader -> layers (floating point, channels last)
ranges, quantise, placing -> export -> program, blob
twin      the board's arithmetic, bit for bit
features  what a board sends, as the tail's tensor
costs     what a board pays for it, and whether it fits
update    signed, for nodes to take over the air
"""
