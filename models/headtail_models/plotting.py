"""Matplotlib, for whoever draws: without a screen, and only when something is drawn."""

from typing import Any

from headtail_fabric.errors import ConfigError


def pyplot() -> Any:
    """The module `matplotlib.pyplot`. Raises ConfigError where it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'headtail[bench]'") from None
    mpl.use("agg")
    from matplotlib import pyplot as module

    return module
