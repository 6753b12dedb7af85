"""Calibration samples from a file, in the order in which the board has values: channels last."""

from pathlib import Path

import numpy as np

from headtail_fabric.errors import ConfigError
from headtail_models.mcu.errors import CalibrationError
from headtail_models.mcu.layers import Floats, Shape


def read_npy(path: Path, shape: Shape) -> Floats:
    """Samples (N, h, w, c) from an array of N x C x H x W, N x C x L or N x C, as ONNX has them.

    Raises CalibrationError, ConfigError.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise CalibrationError(f"{path} is not a .npy file") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise CalibrationError(f"{path} holds no numbers")
    return channels_last(np.asarray(array, dtype=np.float32), shape)


def channels_last(array: Floats, shape: Shape) -> Floats:
    """Raises CalibrationError where the array does not hold samples of `shape`."""
    spatial = array.shape[2:]
    if array.ndim < 2 or array.ndim > 4 or array.shape[1] != shape.c:
        raise CalibrationError(f"samples of shape {array.shape}, the head reads {shape} each")
    rows, columns = (1, 1, *spatial)[-2:]
    if (rows, columns) != (shape.h, shape.w) or not array.size:
        raise CalibrationError(f"samples of shape {array.shape}, the head reads {shape} each")
    ordered = array.reshape(len(array), shape.c, rows, columns).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(ordered)
