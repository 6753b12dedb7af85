"""Where and how each frame is computed, decided anew from what was measured.

    option       one way to compute a frame, and what it cost when it was measured
    costs        this device's own measurements, by way
    menu         a bundle's options
    conditions   the link, the edge and the deadline at one moment
    drift        how far reality has moved from what was measured
    forecast     what an option would cost now
    goal         what is wanted: latency, bytes, energy, a deadline
    steadiness   when to leave what works
    curiosity    when to try what is not known
    penalties    what failed is left alone for a while
    controller   all of it, frame by frame

No clock, thread, socket or chance in here: time is an argument.
"""

from headtail_device.controller.conditions import SlotLink
from headtail_device.controller.controller import Controller
from headtail_device.controller.costs import (
    StageCosts,
    WayCost,
    measure,
    measure_remote,
    measure_whole,
)
from headtail_device.controller.curiosity import Caution
from headtail_device.controller.goal import Goal, Mode
from headtail_device.controller.menu import menu, pictures_of, undominated, ways
from headtail_device.controller.option import Option
from headtail_device.controller.steadiness import Steadiness

__all__ = [
    "Caution",
    "Controller",
    "Goal",
    "Mode",
    "Option",
    "SlotLink",
    "StageCosts",
    "Steadiness",
    "WayCost",
    "measure",
    "measure_remote",
    "measure_whole",
    "menu",
    "pictures_of",
    "undominated",
    "ways",
]
