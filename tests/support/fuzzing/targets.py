"""All targets by name."""

from typing import Final

from fuzzing import (
    bundle_targets,
    cloud_targets,
    device_targets,
    fabric_targets,
    prifi_targets,
)
from fuzzing.target import Target

_MODULES: Final = (
    fabric_targets,
    bundle_targets,
    device_targets,
    prifi_targets,
    cloud_targets,
)
TARGETS: Final[dict[str, Target]] = {
    target.name: target for module in _MODULES for target in module.TARGETS
}
