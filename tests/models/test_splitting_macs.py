"""Multiply-adds by operator."""

from pathlib import Path

import pytest
from onnx import parser

from headtail_models.splitting import open_model


def count(tmp_path: Path, body: str, imports: str = '"" : 17') -> tuple[int, int]:
    """Multiply-adds of all nodes, and how many nodes were not counted."""
    path = tmp_path / "model.onnx"
    model = parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>{body}")
    path.write_bytes(model.SerializeToString())
    (tmp_path / "work").mkdir()
    macs = open_model(path, tmp_path / "work").macs
    return sum(macs.by_node.values()), len(macs.uncounted)


@pytest.mark.parametrize(
    ("macs", "body"),
    [
        (
            8 * 6 * 6 * 2 * 9,
            "g (float[N,4,6,6] x, float[8,2,3,3] w) => (float[N,8,6,6] y) "
            "{ y = Conv<group = 2, pads = [1,1,1,1]>(x, w) }",
        ),
        (
            4 * 6 * 6 * 8 * 4,
            "g (float[N,4,6,6] x, float[4,8,2,2] w) => (float[N,8,12,12] y) "
            "{ y = ConvTranspose<strides = [2,2]>(x, w) }",
        ),
        (
            5 * 7,
            "g (float[N,5] x, float[7,5] w) => (float[N,7] y) { y = Gemm<transB = 1>(x, w) }",
        ),
        (
            3 * 5 * 7,
            "g (float[N,3,5] x, float[5,7] w) => (float[N,3,7] y) { y = MatMul(x, w) }",
        ),
        (
            4 * 6,
            "g (float[N,4,6] x, float[4] s) => (float[N,4,6] y) "
            "{ y = BatchNormalization(x, s, s, s, s) }",
        ),
        (
            3 * 5 * 7,
            "g (float[N,3,5] x, float[5,7] w) => (float[N,3,7] y) "
            '{ y = Einsum<equation = "nij,jk->nik">(x, w) }',
        ),
        (
            6 * (4 * 3 * 5 + 4 * 3 * 3),
            "g (float[6,1,5] x, float[1,12,5] w, float[1,12,3] r) => (float[6,1,1,3] y) "
            "{ y = LSTM<hidden_size = 3>(x, w, r) }",
        ),
        (0, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"),
    ],
)
def test_operators(tmp_path: Path, macs: int, body: str) -> None:
    assert count(tmp_path, body) == (macs, 0)


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    body = """
    g (float[N,4] x, bool c) => (float[N,4] y) {
      y = If (c) <
        then_branch = yes () => (float[N,4] t) { t = Exp(x) },
        else_branch = no () => (float[N,4] e) { e = Neg(x) }
      >
    }"""
    assert count(tmp_path, body) == (0, 1)


def test_operators_of_another_domain(tmp_path: Path) -> None:
    body = "g (float[N,4] x) => (float[N,4] y) { y = com.microsoft.Gelu(x) }"
    assert count(tmp_path, body, '"" : 17, "com.microsoft" : 1') == (0, 1)
