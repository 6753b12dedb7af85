"""What can go wrong while a bottleneck is built and put into a network."""

from headtail_fabric.errors import ConfigError


class BottleneckError(ConfigError):
    """The bottleneck can't be built or used like this. See the message."""


class BlockSizeError(BottleneckError):
    """A block of these sizes would not give back a tensor of the right shape. See the message for
    the sizes that do."""


class UnknownPresetError(BottleneckError):
    """There is no bottleneck of that name. The message lists those there are."""


class InjectionError(BottleneckError):
    """The bottleneck can't be put there. See the message for the layer; name others, or wrap the
    network so that its forward is a plain sequence of modules around them."""


class NoSuchLayerError(InjectionError):
    """The network has no layer of that name. Names are those of `named_modules()`, such as
    `layer1` or `features.3`."""


class UntraceableError(InjectionError):
    """The forward of a module that holds the named layers takes decisions that depend on its input,
    so what comes before and after them can't be told. Name the whole module, or one inside a
    simpler one."""


class NotSeparableError(InjectionError):
    """More than one tensor crosses at the named layers: some other connection goes around them.
    Name all layers between two places where a single tensor passes."""


class BottleneckShapeError(InjectionError):
    """What the decoder gives has another shape than what the replaced layers gave. Choose a block
    made for these layers, or an input size that it fits."""


class FeatureMismatchError(BottleneckError):
    """The features of student and teacher can't be compared: other layers, or other shapes. Take
    them at the same layers and from the same pictures."""
