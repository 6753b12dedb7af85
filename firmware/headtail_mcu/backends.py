"""Which kernels this port has, the fastest first."""

from . import kernels_py

_MACHINE_CODE = (("c", "kernels_c"), ("thumb", "kernels_thumb"), ("viper", "kernels_viper"))


def backends():
    """((name, kernels), ...) for `head.open_head`."""
    found = []
    for name, module in _MACHINE_CODE:
        # A port without the emitter, a .mpy made for another processor, or one that is not there.
        try:
            package = __import__("headtail_mcu." + module)
            found.append((name, getattr(package, module)))
        except (ImportError, SyntaxError, ValueError):
            pass
    found.append(("python", kernels_py))
    return tuple(found)
