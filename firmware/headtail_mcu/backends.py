"""Which kernels this port has, the fastest first."""

from . import kernels_py


def backends():
    """((name, kernels), ...) for `head.open_head`."""
    found = []
    # A port without the emitter, or a .mpy made for another processor, goes without.
    try:
        from . import kernels_thumb

        found.append(("thumb", kernels_thumb))
    except (ImportError, SyntaxError, ValueError):
        pass
    try:
        from . import kernels_viper

        found.append(("viper", kernels_viper))
    except (ImportError, SyntaxError, ValueError):
        pass
    found.append(("python", kernels_py))
    return tuple(found)
