"""What a device can be told of where its frames are computed."""

from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

Goal = Literal["lowest-latency", "lowest-bytes", "lowest-energy", "deadline", "fixed"]
Mode = Literal["edge", "local", "auto", Goal]
MODES: Final[tuple[Mode, ...]] = ("edge", "local", "auto", *get_args(Goal))
ExitPolicy = Literal["threshold", "per-class", "guided"]
PictureWay = Annotated[str, Meta(pattern=r"^(jpeg|webp):[0-9]{1,3}:-?[0-9]+(\.[0-9]+)?\Z")]


class WayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What crosses to the edge."""

    cut: Annotated[
        str,
        Meta(
            max_length=64,
            description="A cut of the bundle, or `input` to send the picture itself. "
            "Empty: the bundle's default.",
        ),
    ] = ""
    codec: Annotated[
        str,
        Meta(
            max_length=32,
            description="A codec the bundle has at that cut, or jpeg or webp for `input`. "
            "Empty: the bundle's default, or jpeg.",
        ),
    ] = ""
    quality: Annotated[int, Meta(ge=1, le=100, description="Of jpeg and webp.")] = 75


class GatesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What may end a frame on its way to the cut, where the bundle has gates there. They are for
    frames that would be sent: none is looked at for `cut = "input"`, or for the whole model."""

    exit_point: Annotated[
        str,
        Meta(
            max_length=64,
            description="The operating point of the early exits, as calibrated (`headtail bundle "
            "show`). Empty: the bundle's default; `off`: no exits.",
        ),
    ] = ""
    exit_policy: Annotated[
        ExitPolicy,
        Meta(
            description="Who leaves at an exit: whoever is sure enough (`threshold`), the same "
            "share of every class (`per-class`), or a fixed share, by chance within it (`guided`). "
            "The last two tell an observer less of what was seen, for some accuracy."
        ),
    ] = "threshold"
    filter: Annotated[
        bool, Meta(description="Let the bundle's filter end frames that hold nothing of interest.")
    ] = True


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How `auto` chooses where each frame is computed. The device measures itself first."""

    goal: Annotated[
        Goal,
        Meta(
            description="What `mode = auto` wants; as a mode of its own each is wanted too. "
            "`lowest-latency`: the soonest answers; `lowest-bytes`, `lowest-energy`: the fewest, "
            "in time; `deadline`: the most accurate in time; `fixed`: what `way` says, while the "
            "edge can be had, and local if that is late."
        ),
    ] = "lowest-latency"
    max_drop: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The most accuracy (a share) that a way may cost, as the bundle's maker "
            "measured it.",
        ),
    ] = 0.01
    seconds_a_point: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="For `lowest-latency`: how much later an answer may come for 0.01 more "
            "accuracy. Less makes early exits more eager.",
        ),
    ] = 0.02
    pictures: Annotated[
        tuple[PictureWay, ...],
        Meta(
            max_length=16,
            description="Codecs in which the picture itself may be sent, each with the accuracy "
            'that it costs, such as "jpeg:90:0.004"; besides those that the bundle knows.',
        ),
    ] = ()
    joules_per_mac: Annotated[
        float, Meta(ge=0, description="Of energy, for a multiply-add on this device.")
    ] = 0.5e-9
    joules_per_byte: Annotated[float, Meta(ge=0, description="For a byte sent.")] = 1e-6
    idle_w: Annotated[float, Meta(ge=0, description="In watts, while it waits for the edge.")] = 0.5
    hedge: Annotated[
        bool,
        Meta(
            description="Compute a frame here as well when the edge takes longer than 95 % of its "
            "answers should; the first answer counts. Needs one of the controller's modes."
        ),
    ] = False
    profile: Annotated[
        bool,
        Meta(
            description="Keep what this device measured of itself for the next start; false "
            "measures at each start, which takes some seconds."
        ),
    ] = True
