"""The envelope for sleepy nodes, against an implementation of its own from libraries."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from micropython_runner import run

VECTORS = Path(__file__).parents[1] / "vectors" / "mcu-envelope-v1.json"


def sealed(psk: bytes, key_id: int, boot: int, counter: int, way: str, payload: bytes) -> bytes:
    keys = HKDF(psk, 64, b"headtail envelope 1", SHA256, context=way.encode())
    header = bytes((1, key_id)) + boot.to_bytes(4, "big") + counter.to_bytes(4, "big")
    cipher = AES.new(keys[:16], AES.MODE_CTR, nonce=header[2:])
    packet = header + cipher.encrypt(payload)
    return packet + hmac.new(keys[32:], packet, hashlib.sha256).digest()[:16]


def test_frozen_packets_are_what_libraries_make() -> None:
    vectors = json.loads(VECTORS.read_bytes())
    psk = bytes.fromhex(vectors["psk"])
    for way in ("up", "down"):
        for counter, case in enumerate(vectors[way]):
            packet = sealed(
                psk,
                vectors["key_id"],
                vectors["boot"],
                counter,
                way,
                bytes.fromhex(case["payload"]),
            )
            assert packet.hex() == case["packet"]


@pytest.mark.system
def test_on_micropython(tmp_path: Path) -> None:
    assert run("envelope_vectors.py", VECTORS, tmp_path / "boot") == "passed\n"
