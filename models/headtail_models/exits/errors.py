"""What can go wrong while exits are calibrated."""

from headtail_fabric.errors import ConfigError


class CalibrationError(ConfigError):
    """The exits can't be calibrated on those samples. See the message; give a calibration split
    that holds samples of every class and that nothing was trained on."""


class EmptyCalibrationError(CalibrationError):
    """There are no samples to calibrate on. Name a calibration split that holds some."""
