"""Reading Darknet's files: exactly, or with an error that says where."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.zoo.darknet import Convolution, DarknetError, MaxPool, Yolo, read_network
from tiny_darknet import CFG, floats, weights


def _one_layer(section: str, values: int = 0, *, side: int = 8) -> tuple[str, bytes]:
    cfg = f"[net]\nchannels=2\nheight={side}\nwidth={side}\n{section}"
    data = np.arange(1, values + 1, dtype="<f4") / 8
    return cfg, struct.pack("<3iQ", 0, 2, 0, 0) + data.tobytes()


def test_layers_and_shapes() -> None:
    network = read_network(CFG, weights())
    assert network.input_shape == (3, 32, 32)
    assert [type(layer).__name__ for layer in network.layers] == [
        "Convolution",
        "MaxPool",
        "Convolution",
        "MaxPool",
        "Convolution",
        "MaxPool",
        "MaxPool",
        "Convolution",
        "Convolution",
        "Yolo",
        "Route",
        "Convolution",
        "Upsample",
        "Route",
        "Convolution",
        "Yolo",
    ]
    assert network.shapes[4:8] == ((8, 8, 8), (8, 4, 4), (8, 4, 4), (10, 4, 4))
    assert network.shapes[13] == (12, 8, 8)
    assert network.layers[6] == MaxPool(size=2, stride=1, padding=1)
    assert network.sources(0) == (-1,)
    assert network.sources(10) == (7,)
    assert network.sources(13) == (12, 4)
    yolo = network.layers[9]
    assert isinstance(yolo, Yolo)
    assert (yolo.mask, yolo.anchors[2:], yolo.classes) == ((1, 2, 3), ((8, 6), (20, 24)), 2)


def test_multiplications() -> None:
    network = read_network(CFG, weights())
    assert network.macs(0) == 4 * 3 * 9 * 32 * 32
    assert network.macs(1) == 0
    assert network.macs(7) == 10 * 8 * 4 * 4


def test_batch_normalisation_is_folded() -> None:
    cfg, data = _one_layer(
        "[convolutional]\nbatch_normalize=1\nfilters=1\nsize=1\nactivation=leaky\n", 6
    )
    layer = read_network(cfg, data).layers[0]
    assert isinstance(layer, Convolution)
    beta, gamma, mean, variance, *kernel = (np.arange(1, 7) / 8).tolist()
    scale = gamma / (variance**0.5 + 1e-6)
    np.testing.assert_allclose(layer.kernel.reshape(-1), np.array(kernel) * scale, rtol=1e-6)
    np.testing.assert_allclose(layer.bias, [beta - mean * scale], rtol=1e-6)
    assert layer.leaky


def test_without_batch_normalisation_the_floats_stay() -> None:
    cfg, data = _one_layer("[convolutional]\nfilters=2\nsize=1\nactivation=linear\n", 6)
    layer = read_network(cfg, data).layers[0]
    assert isinstance(layer, Convolution)
    np.testing.assert_array_equal(layer.bias, [1 / 8, 2 / 8])
    np.testing.assert_array_equal(layer.kernel.reshape(2, 2), [[3 / 8, 4 / 8], [5 / 8, 6 / 8]])
    assert not layer.leaky


def test_old_header_counts_pictures_in_four_bytes() -> None:
    cfg, data = _one_layer("[convolutional]\nfilters=2\nsize=1\nactivation=linear\n", 6)
    old = struct.pack("<3iI", 0, 1, 0, 0) + data[20:]
    layer = read_network(cfg, old).layers[0]
    assert isinstance(layer, Convolution)
    np.testing.assert_array_equal(layer.bias, [1 / 8, 2 / 8])


@pytest.mark.parametrize(
    ("side", "size", "stride", "expected"), [(8, 2, 2, 4), (8, 2, 1, 8), (9, 2, 2, 5), (8, 3, 3, 3)]
)
def test_pool_shapes(side: int, size: int, stride: int, expected: int) -> None:
    cfg, data = _one_layer(f"[maxpool]\nsize={size}\nstride={stride}\n", side=side)
    assert read_network(cfg, data).shapes == ((2, expected, expected),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-4], "needs 252 floats, the weights file has 251 left"),
        (lambda data: data + bytes(4), "1 floats of the weights file belong to no layer"),
        (lambda data: data[:-1], "whole floats"),
        (lambda data: data[:8], "a weights file of 8 bytes"),
        (lambda data: data[:-4] + struct.pack("<f", float("nan")), "not all finite"),
    ],
)
def test_weights_that_do_not_fit(change: Callable[[bytes], bytes], words: str) -> None:
    with pytest.raises(DarknetError) as caught:
        read_network(CFG, change(weights()))
    assert words in caught.value.message


def test_negative_variance() -> None:
    values = floats()
    values[3 * 4] = -1
    with pytest.raises(DarknetError, match="variance"):
        read_network(CFG, weights()[:20] + values.tobytes())


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("[shortcut]\nfrom=-2\n", r"\[shortcut\] at line 5"),
        ("[maxpool]\nsize=two\n", "size is 'two'"),
        ("[maxpool]\nsize=0\n", "size is 0"),
        ("[maxpool]\nsize=20\nstride=1\npadding=0\n", "output has shape"),
        ("[convolutional]\nfilters=2\ngroups=2\n", "grouped"),
        ("[convolutional]\nfilters=2\nactivation=mish\n", "'mish'"),
        ("[convolutional]\nfilters=65536\nsize=65536\nactivation=linear\n", "needs"),
        ("[route]\nlayers=-1\n", "come before"),
        ("[route]\nlayers=here\n", "not a list"),
        ("[route]\nlayers=nan\n", "not a list"),
        ("[route]\nlayers=-1\ngroups=2\n", "part of the channels"),
        ("[yolo]\nmask=0\nanchors=1,2\nclasses=3\n", "2 channels for 1 anchors"),
        ("[yolo]\nmask=1\nanchors=1,2\nclasses=3\n", "does not choose"),
        ("[maxpool]\nsize 2\n", "not `option = value`"),
    ],
)
def test_layers_that_are_not_understood(section: str, words: str) -> None:
    with pytest.raises(DarknetError, match=words) as caught:
        read_network(*_one_layer(section))
    assert "belong together" in caught.value.advice


def test_routes_of_different_size() -> None:
    cfg, data = _one_layer(
        "[maxpool]\nsize=2\nstride=2\n[maxpool]\nsize=2\nstride=2\n[route]\nlayers=-1,-2\n"
    )
    with pytest.raises(DarknetError, match="same size"):
        read_network(cfg, data)


@pytest.mark.parametrize(
    ("cfg", "words"),
    [
        ("", "first section"),
        ("[maxpool]\nsize=2\n", "first section"),
        ("size=2\n", "not `option = value`"),
        ("[net]\nchannels=3\nheight=9\n", "width is None"),
        ("[net]\nchannels=3\nheight=9\nwidth=9\n" + "[maxpool]\n" * 2000, "more than 1000"),
    ],
)
def test_cfg_that_is_none(cfg: str, words: str) -> None:
    with pytest.raises(DarknetError, match=words):
        read_network(cfg, bytes(20))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.integers(0, len(CFG)), st.integers(0, 40), st.integers(0, 3000))
def test_whatever_comes_is_read_or_refused(words: str, at: int, gone: int, size: int) -> None:
    cfg = CFG[:at] + words + CFG[at + gone :]
    try:
        read_network(cfg, weights()[:size])
    except DarknetError:
        return
