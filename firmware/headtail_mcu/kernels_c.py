"""The two kernels that take most of the time, in C: the native module that `firmware/natmod` makes.

The others are `kernels_viper`'s. ImportError on a board that was not given the module.
"""

from . import kernels_viper
from .natmod import convolution, depthwise

handles = kernels_viper.handles
KERNELS = (None, convolution, depthwise) + kernels_viper.KERNELS[3:]
