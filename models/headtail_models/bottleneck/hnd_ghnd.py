"""The block of bottleneck-injected R-CNNs: few channels, the spatial size stays.

Matsubara and Levorato, "Neural Compression and Filtering for Edge-assisted Real-time Object
Detection in Challenged Networks", ICPR 2020; their published configuration.
"""

from torch import nn

from headtail_models.bottleneck.block import Bottleneck, conv, sequence
from headtail_models.bottleneck.errors import BlockSizeError


def hnd_ghnd(
    channels: int = 3,
    *,
    inputs: int = 64,
    outputs: int = 256,
    width: int = 64,
    kernel: int = 2,
    stride: int = 1,
    wire: nn.Module | None = None,
) -> Bottleneck:
    """For a ResNet's layer1: `inputs` x H x W -> b x (H + 4) x (W + 4) -> `outputs` x H x W.

    Each of the encoder's four convolutions is padded so that it adds `kernel - 1` rows and columns,
    and each of the decoder's takes them off again. With a `stride` the last convolution of the
    encoder has it, and a transposed convolution undoes it; H and W must then be multiples of it.
    What crosses is the bare convolution: its normalisation and ReLU are the server's. Raises
    BlockSizeError.
    """
    grown = 4 * (kernel - 1)
    if kernel < 2 or stride < 1 or grown % stride:
        raise BlockSizeError(
            f"kernel {kernel}, stride {stride}: the kernel is at least 2, the stride divides "
            f"four times the kernel less one"
        )
    pad = kernel - 1
    encoder = sequence(
        conv(inputs, width, kernel=kernel, padding=pad),
        nn.BatchNorm2d(width),
        conv(width, 4 * width, kernel=kernel, padding=pad),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        conv(4 * width, width, kernel=kernel, padding=pad),
        nn.BatchNorm2d(width),
        conv(width, channels, kernel=kernel, stride=stride, padding=pad),
    )
    enlarge = (
        [nn.ConvTranspose2d(channels, channels, stride, stride, bias=False)] if stride > 1 else []
    )
    decoder = sequence(
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        *enlarge,
        conv(channels, width, kernel=kernel),
        nn.BatchNorm2d(width),
        conv(width, 2 * width, kernel=kernel),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        conv(2 * width, outputs, kernel=kernel),
        nn.BatchNorm2d(outputs),
        conv(outputs, outputs, kernel=kernel),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
    return Bottleneck(encoder, decoder, channels=channels, wire=wire)
