"""Which kernels this port has, the fastest first."""

from . import kernels_py


def backends():
    """((name, kernels), ...) for `head.open_head`."""
    try:
        from . import kernels_viper
    except (ImportError, SyntaxError, ValueError):
        # No machine code emitter, or a .mpy made for another processor.
        return (("python", kernels_py),)
    return ("viper", kernels_viper), ("python", kernels_py)
