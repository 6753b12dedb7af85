"""Signed updates, as they are made."""

import hashlib
import json
from pathlib import Path

import pytest
from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA
from Crypto.Signature import pkcs1_15

from headtail_fabric.errors import ConfigError
from headtail_models.mcu.errors import McuError
from headtail_models.mcu.export import export_head
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.sketch import GraphDrawing
from headtail_models.mcu.update import Release, SigningKey, SigningKeyError, make_update
from mcu_graphs import drawn_samples


@pytest.fixture(scope="module")
def key() -> RSA.RsaKey:
    return RSA.generate(2048)


@pytest.fixture(scope="module")
def program() -> Program:
    graph = GraphDrawing(Shape(1, 1, 4)).convolution(3).end()
    return export_head(graph, drawn_samples(graph)).program


def test_manifest_and_signature(key: RSA.RsaKey, program: Program) -> None:
    signing = SigningKey(key)
    release = Release(name="digits", version="1.2", number=7)
    line, signature, blob = make_update(program, release, signing).split(b"\n", 2)
    assert blob == program.blob
    manifest = json.loads(line)
    assert manifest["release"] == 7
    assert manifest["size"] == len(blob)
    assert manifest["sha256"] == hashlib.sha256(blob).hexdigest()
    assert manifest["key_id"] == signing.id
    pkcs1_15.new(key.public_key()).verify(SHA256.new(line), bytes.fromhex(signature.decode()))


def test_a_name_that_is_too_long(key: RSA.RsaKey, program: Program) -> None:
    with pytest.raises(McuError, match="shorten"):
        make_update(program, Release(name="n" * 1000, version="1", number=1), SigningKey(key))


def test_keys_that_can_not_sign(key: RSA.RsaKey, tmp_path: Path) -> None:
    with pytest.raises(SigningKeyError, match="1024 bits"):
        SigningKey(RSA.generate(1024))
    with pytest.raises(SigningKeyError):
        SigningKey(key.public_key())
    path = tmp_path / "key.pem"
    path.write_bytes(key.export_key())
    assert SigningKey.read(path).modulus == SigningKey(key).modulus
    path.write_text("nothing")
    with pytest.raises(SigningKeyError, match="no RSA key"):
        SigningKey.read(path)
    with pytest.raises(ConfigError):
        SigningKey.read(tmp_path / "absent.pem")
