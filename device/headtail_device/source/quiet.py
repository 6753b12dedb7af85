"""Keeps OpenCV and FFmpeg from writing to standard error what is reported properly anyway."""

import os

from cv2.utils import logging as cv2_logging


def silence_opencv() -> None:
    """Must come before the first capture or writer of the process: FFmpeg's level is read once.

    A level that the operator has set in the environment stays.
    """
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    if "OPENCV_LOG_LEVEL" not in os.environ:
        cv2_logging.setLogLevel(cv2_logging.LOG_LEVEL_SILENT)
