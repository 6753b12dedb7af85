"""What can be wrong with a sound."""

from headtail_fabric.errors import ConfigError


class SoundError(ConfigError):
    """A sound can't be used; the message says why."""


class NotWavError(SoundError):
    """The file is not a WAV file of a kind that is read here: PCM of 8, 16, 24 or 32 bits, or
    float of 32 bits. Convert it, for example with `ffmpeg -i IN -c:a pcm_s16le OUT.wav`."""


class TruncatedSoundError(SoundError):
    """The file ends before its sound does: it was cut off while it was copied or recorded. Copy
    it again; what is left can be saved with `ffmpeg -i IN OUT.wav`."""


class EmptySoundError(SoundError):
    """There is no sound in the file, or in what was recorded. Name another one."""
