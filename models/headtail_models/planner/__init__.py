"""Where to cut a model for a link and a device.

    survey      measures a model's cuts on this machine (needs the extra `build`)
    costs       what was measured, as a file
    options     local, split and offload, for a device that is slower than this machine
    option      what an option costs over a link: latency and energy
    front       which options are worth knowing, and which is the fastest
    units       2mbit, 30ms

All but `survey` and what it uses are pure functions over plain data.
"""

from headtail_models.planner.costs import ModelCosts
from headtail_models.planner.front import fastest, fastest_by_rate, pareto, worth_showing
from headtail_models.planner.option import EnergyModel, Link, Option, energy_j, latency_s
from headtail_models.planner.options import Device, options_of

__all__ = [
    "Device",
    "EnergyModel",
    "Link",
    "ModelCosts",
    "Option",
    "energy_j",
    "fastest",
    "fastest_by_rate",
    "latency_s",
    "options_of",
    "pareto",
    "worth_showing",
]
