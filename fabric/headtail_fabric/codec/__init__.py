"""Tensor codecs: an array to bytes and back, exact across machines.

A codec id is a base (`raw`, `q8`, `q4`, `jpeg`, `webp`), optionally followed by `+zstd`; these are
in the table. `q8-nhwc`, `q4-nhwc` and `q2-nhwc` are what microcontrollers send: levels with the
channels last. `rans` and `rans-NAME`, the entropy-coded ones, need a coding model besides and are
made by whoever has it (`headtail_fabric.rans`).
"""

from headtail_fabric.codec.base import BatchCodec, CodecError, TensorCodec
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.codec.table import codec_for, codec_ids

__all__ = ["BatchCodec", "CodecError", "Quantiser", "TensorCodec", "codec_for", "codec_ids"]
