import stat
from pathlib import Path

import pytest

from headtail_fabric import keys
from headtail_fabric.keys import (
    BadNameError,
    KeyExistsError,
    KeyExposedError,
    KeyMalformedError,
    KeyMismatchError,
    KeyMissingError,
)
from headtail_fabric.seal import key
from headtail_fabric.seal.key import BadSealKeyError


def test_a_pair_is_saved_and_loaded_and_kept_from_others(tmp_path: Path) -> None:
    pair = key.generate("edge-1")
    path = key.save(pair, tmp_path / "keys")
    assert path == tmp_path / "keys" / "edge-1.seal"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.load(path) == pair
    public = path.with_name("edge-1.seal.pub")
    assert public.read_text() == f"edge-1 {pair.public_text}\n"
    assert key.load_public(public) == pair.public
    assert repr(pair.secret) not in repr(pair)


def test_both_kinds_of_one_name_lie_side_by_side_and_neither_is_overwritten(tmp_path: Path) -> None:
    curve = keys.generate("edge-1")
    keys.save(curve, tmp_path)
    pair = key.generate("edge-1")
    key.save(pair, tmp_path)
    assert keys.load(tmp_path / "edge-1.key") == curve
    with pytest.raises(KeyExistsError):
        key.save(key.generate("edge-1"), tmp_path)
    assert key.load(tmp_path / "edge-1.seal") == pair


def test_a_setting_is_a_key_or_a_file(tmp_path: Path) -> None:
    pair = key.generate("edge-1")
    key.save(pair, tmp_path)
    assert key.public_key(pair.public_text) == pair.public
    assert key.public_key(str(tmp_path / "edge-1.seal.pub")) == pair.public
    with pytest.raises(KeyMissingError):
        key.public_key(str(tmp_path / "edge-2.seal.pub"))


@pytest.mark.parametrize(
    "text", ["", "seal:", "seal:short", "seal:" + "'" * 40, "seal:" + "é" * 40, "curve:x"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadSealKeyError):
        key.parse_public(text)


def test_a_key_of_small_order_is_refused() -> None:
    with pytest.raises(BadSealKeyError, match="small order"):
        key.public_key(key.public_text(bytes(32)))


def test_a_curve_key_is_not_taken_for_a_sealing_key(tmp_path: Path) -> None:
    path = keys.save(keys.generate("edge-1"), tmp_path)
    with pytest.raises(KeyMalformedError):
        key.load(path)
    with pytest.raises(KeyMalformedError):
        key.load_public(path.with_suffix(".pub"))


def test_a_file_that_others_may_read_or_was_mixed_up_is_refused(tmp_path: Path) -> None:
    path = key.save(key.generate("edge-1"), tmp_path)
    path.chmod(0o644)
    with pytest.raises(KeyExposedError):
        key.load(path)
    path.chmod(0o600)
    other = key.generate("edge-2").public_text
    lines = [
        f'public = "{other}"' if line.startswith("public") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(KeyMismatchError):
        key.load(path)
    path.write_text('name = "edge-1"\npublic = "x"\nsecret = "y"\n')
    with pytest.raises(KeyMalformedError):
        key.load(path)


def test_a_name_is_checked() -> None:
    with pytest.raises(BadNameError):
        key.generate("a/b")
