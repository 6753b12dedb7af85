"""What can be wrong with a source."""

from headtail_fabric.errors import ConfigError, ResourceError


class SourceError(ResourceError):
    """The source of frames broke off. What came before has been answered; see the message."""


class NoSuchSourceError(ConfigError):
    """There is nothing to read under that name. For a bundle that sees, give a video file, a
    picture, a folder of pictures, watch: and a folder, a camera (0, 1, ... or /dev/video0) or a
    stream (rtsp://...); else a WAV file, mic:, a text file, serial:/dev/ttyUSB0 or - for standard
    input."""


class UnreadableVideoError(SourceError):
    """The file can't be decoded as a video: it is none, it was cut off before its index was
    written, or its codec is missing here. Try to play it with another program, or convert it to
    MP4 (H.264)."""


class EmptySourceError(SourceError):
    """The source holds no frame at all, so there is nothing to do. Check that it is the right
    file or folder."""


class CameraError(SourceError):
    """The camera or stream can't be opened, or stopped giving pictures. Check that it is plugged
    in and reachable, that no other program holds it, and that this user may read it; then start
    again."""
