"""Signed updates on real MicroPython: tampering, going back, power cuts."""

import json
import re
from pathlib import Path

import pytest
from Crypto.PublicKey import RSA

from headtail_models.mcu.export import export_head
from headtail_models.mcu.program import Program
from headtail_models.mcu.update import Release, SigningKey, make_update
from mcu_graphs import drawn_samples, every_kind
from micropython_runner import run, start

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def program() -> Program:
    graph = every_kind()
    return export_head(graph, drawn_samples(graph)).program


def release(number: int) -> Release:
    return Release(name="motion", version=f"1.{number}", number=number)


def forgeries(program: Program, key: SigningKey, folder: Path) -> list[Path]:
    """Files named after what the node has to say of them."""
    update = make_update(program, release(9), key)
    manifest, signature, blob = update.split(b"\n", 2)
    stranger = SigningKey(RSA.generate(2048))
    renamed = json.loads(manifest) | {"release": 10}
    flipped = bytearray(blob)
    flipped[len(blob) // 2] ^= 1

    def together(*parts: bytes) -> bytes:
        return b"\n".join(parts)

    def signed(**changes: object) -> bytes:
        line = json.dumps(json.loads(manifest) | changes).encode()
        return together(line, key.sign(line).hex().encode(), blob)

    made = {
        "the_signature_is_wrong.1": together(json.dumps(renamed).encode(), signature, blob),
        "the_signature_is_wrong.2": together(manifest, signature[2:] + signature[:2], blob),
        "the_signature_is_wrong.3": together(manifest, signature[:-2], blob),
        "the_signature_is_wrong.4": together(manifest, b"no hex", blob),
        "does_not_know.1": make_update(program, release(9), stranger),
        "not_the_bytes_that_were_signed.1": together(manifest, signature, bytes(flipped)),
        "bytes_are_missing.1": update[:-1],
        "more_bytes_than.1": update + b"x",
        "not_a_manifest.1": together(b"{", signature, blob),
        "not_a_manifest.2": together(b"[]", signature, blob),
        "is_not_an_update.1": together(manifest, b"0" * 5000, blob),
        "a_manifest_of_1025_bytes.1": together(b" " * 5000, signature, blob),
        "of_schema_2.1": signed(schema=2),
        "without_what_it_has_to_have.1": signed(size="10"),
        "needs_firmware.1": signed(min_firmware=[9, 0, 0]),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in made]


def test_updates(tmp_path: Path, program: Program) -> None:
    key = SigningKey(RSA.generate(2048))
    for number, name in ((1, "good"), (2, "newer")):
        (tmp_path / name).write_bytes(make_update(program, release(number), key))
    (tmp_path / "slots").mkdir()
    (tmp_path / "forged").mkdir()
    (tmp_path / "modulus").write_bytes(key.modulus)
    output = run(
        "ota.py",
        tmp_path / "slots",
        tmp_path / "modulus",
        tmp_path / "good",
        tmp_path / "newer",
        *forgeries(program, key, tmp_path / "forged"),
    )
    assert re.fullmatch(r"passed \d+\n", output)


def test_killed_at_each_write(tmp_path: Path, program: Program) -> None:
    key = SigningKey(RSA.generate(2048))
    first, second = tmp_path / "1.update", tmp_path / "2.update"
    first.write_bytes(make_update(program, release(1), key))
    second.write_bytes(make_update(program, release(2), key))
    modulus = tmp_path / "modulus"
    modulus.write_bytes(key.modulus)
    fates: list[str | None] = []
    while not fates or fates[-1] is None:
        slots = tmp_path / f"slots-{len(fates)}"
        slots.mkdir()
        assert run("ota_killed.py", slots, modulus, first, -1) == "a 1 1\n"
        with start("ota_killed.py", slots, modulus, second, len(fates)) as process:
            output, _ = process.communicate(timeout=60)
        fates.append(output if process.returncode == 0 else None)
        if process.returncode:
            assert process.returncode == -9
            # The old head or the new one, whole; a new one is confirmed later, or taken again.
            after = run("ota_killed.py", slots, modulus)
            assert after in ("a 1 1\n", "b 2 1\n", "b 2 2\n")
            if after == "a 1 1\n":
                assert run("ota_killed.py", slots, modulus, second, -1) == "b 2 2\n"
    assert fates[-1] == "b 2 2\n"
    assert len(fates) > 8
