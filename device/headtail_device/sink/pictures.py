"""A folder of pictures with their answers drawn in."""

import contextlib
from pathlib import Path
from typing import Final

import cv2

from headtail_device.delivery import Finished
from headtail_device.sink.annotation import annotate
from headtail_device.sink.base import SinkError

_QUALITY: Final = 90


class AnnotatedPicturesSink:
    """One JPEG file for each frame that could be read: `frame-000012.jpg`, annotated when there
    is an answer. A file that could not be written whole is removed."""

    def __init__(self, folder: Path) -> None:
        """Raises SinkError when the folder can't be made."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"{folder}: {error.strerror}", path=str(folder)) from error

    @property
    def path(self) -> str:
        return str(self._folder)

    def write(self, finished: Finished) -> None:
        picture, answer = finished.picture, finished.record.answer
        if picture is None:
            return
        if answer is not None:
            picture = annotate(picture, answer)
        file = self._folder / f"frame-{finished.record.index:06d}.jpg"
        try:
            done, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
            if not done:
                raise SinkError(f"{file}: a picture of that size is no JPEG", path=str(file))
            file.write_bytes(encoded.tobytes())
        except OSError as error:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            raise SinkError(f"{file}: {error.strerror}", path=str(file)) from error

    def close(self) -> None:
        """Nothing to finish: each file was closed when it was written."""
