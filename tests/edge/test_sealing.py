from pathlib import Path

import msgspec
import pytest

from headtail_edge.config import EdgeConfig, SealConfig
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.sealing import open_seals
from headtail_fabric import config
from headtail_fabric.config import BadValueError
from headtail_fabric.keys import KeyMissingError
from headtail_fabric.metrics import NullMetrics, PrometheusMetrics
from headtail_fabric.seal import NotSealedError, WrongSealKeyError
from headtail_fabric.seal import key as seal_key
from headtail_fabric.wire import Request
from wire_samples import SAMPLES, SESSION

CLEAR = SAMPLES["request"][0]


def test_without_a_key_nothing_is_opened() -> None:
    assert open_seals(SealConfig(), EdgeMetrics(NullMetrics())) is None


def test_what_is_refused_is_counted_by_its_kind(tmp_path: Path) -> None:
    path = seal_key.save(seal_key.generate("edge-1"), tmp_path)
    measured = PrometheusMetrics()
    opener = open_seals(SealConfig(key=path, required=True), EdgeMetrics(measured))
    assert opener is not None
    assert isinstance(CLEAR, Request)
    with pytest.raises(NotSealedError):
        opener.open(CLEAR, [b"x"], session=SESSION, boot=bytes(16))
    sealed = msgspec.structs.replace(CLEAR.tensors[0], codec="sealed")
    with pytest.raises(WrongSealKeyError):
        opener.open(
            msgspec.structs.replace(CLEAR, tensors=(sealed,)),
            [b"\x01" + bytes(100)],
            session=SESSION,
            boot=bytes(16),
        )
    text = measured.text()
    assert 'headtail_edge_refused_seals_total{reason="notsealed"} 1.0' in text
    assert 'headtail_edge_refused_seals_total{reason="wrongsealkey"} 1.0' in text


def test_a_key_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(KeyMissingError):
        open_seals(SealConfig(key=tmp_path / "no.seal"), EdgeMetrics(NullMetrics()))


def test_to_require_seals_takes_a_key() -> None:
    with pytest.raises(BadValueError, match=r"seal\.key is not"):
        config.parse(EdgeConfig, "[seal]\nrequired = true\n", source="edge.toml")
