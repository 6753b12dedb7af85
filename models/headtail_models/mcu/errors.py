"""What can go wrong while a head is made for a microcontroller."""

from headtail_fabric.errors import ConfigError, PeerError


class McuError(ConfigError):
    """The model can't be exported to a microcontroller like this. See the message."""


class UnsupportedLayerError(McuError):
    """A layer has no kernel on the board. Cut the model before it, or train the head with
    convolutions, depthwise convolutions, dense layers, additions, pools and ReLU only."""


class UnsupportedCutError(McuError):
    """The bundle's cut can't run on a board as it is. Boards have one exit at most, one range for
    all channels of what they send, and the codecs q8-nhwc, q4-nhwc and q2-nhwc."""


class CalibrationError(McuError):
    """The calibration samples don't fit the model's input. Give a float32 array (.npy) of at least
    one sample, shaped like the model's input with the samples on the first axis."""


class OutOfRangeError(McuError):
    """A number of the model does not fit the board's integer arithmetic. Check the layer's weights
    for values that are not finite or far larger than the rest; a layer that is too wide has to be
    split."""


class FrontEndError(McuError):
    """A board can't compute this front end. Choose an FFT of 16 to 512 that is a power of two, a
    window and bands that fit it, and a network whose input spans the logarithms' range."""


class DoesNotFitError(McuError):
    """The head is too large or too slow for the board. Cut the model earlier, make it narrower,
    shrink its input, or name a larger board or a longer time."""


class BlobError(PeerError):
    """The file is not a head for microcontrollers, or is damaged. Export it again."""


class FeaturesError(PeerError):
    """A node sent something else than its head leaves. Check that both sides have the same head."""
