import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric import keys
from headtail_fabric.keys import KeyPair, PublicKey

# The example keys of zmq_curve(7).
CLIENT = KeyPair(
    name="cam-1",
    public="Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    secret="D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs",
)
SERVER_PUBLIC = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_saved_pair_loads_as_it_was(tmp_path: Path) -> None:
    path = keys.save(CLIENT, tmp_path / "deep" / "keys")
    assert path == tmp_path / "deep" / "keys" / "cam-1.key"
    assert keys.load(path) == CLIENT
    assert keys.load_public(path.with_suffix(".pub")) == PublicKey(
        name="cam-1", public=CLIENT.public
    )


def test_only_the_owner_may_read_the_secret_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = keys.save(CLIENT, tmp_path / "keys")
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600
    assert mode_of(path.with_suffix(".pub")) == 0o644
    assert mode_of(path.parent) == 0o700


def test_the_secret_is_in_no_repr_and_no_public_file(tmp_path: Path) -> None:
    assert repr(CLIENT) == f"KeyPair(name='cam-1', public={CLIENT.public!r})"
    path = keys.save(CLIENT, tmp_path)
    assert CLIENT.secret not in path.with_suffix(".pub").read_text()


@given(name=st.from_regex(keys.NAME_PATTERN, fullmatch=True))
def test_generated_pairs_are_pairs(name: str) -> None:
    pair = keys.generate(name)
    assert pair.name == name
    assert keys.check_public(pair.public) == pair.public
    assert not pair.public.startswith("-")
    assert pair.secret != pair.public


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "a b", "a" * 65, "cam\n", "kamera-ä"])
def test_what_can_not_be_a_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(keys.BadNameError):
        keys.generate(name)
    with pytest.raises(keys.BadNameError):
        keys.key_path(tmp_path, name)


@pytest.mark.parametrize(
    "public",
    ["", "abc", CLIENT.public[:-1], CLIENT.public + "0", "~" * 40, "#" * 40, "é" * 40],
    ids=["empty", "short", "39", "41", "alphabet", "overflow", "unicode"],
)
def test_what_can_not_be_a_key_is_refused(public: str) -> None:
    with pytest.raises(keys.BadKeyError):
        keys.check_public(public)


@pytest.mark.parametrize("left", [".key", ".pub"])
def test_a_key_is_never_overwritten(left: str, tmp_path: Path) -> None:
    path = keys.save(CLIENT, tmp_path)
    other = ".pub" if left == ".key" else ".key"
    path.with_suffix(other).unlink()
    content = path.with_suffix(left).read_text()
    with pytest.raises(keys.KeyExistsError, match="cam-1"):
        keys.save(CLIENT, tmp_path)
    assert path.with_suffix(left).read_text() == content
    assert not path.with_suffix(other).exists()


def test_a_pair_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().suffix == ".pub":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(keys.KeyFileError, match="No space left"):
        keys.save(CLIENT, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    with pytest.raises(keys.KeyFileError, match="keys"):
        keys.save(CLIENT, tmp_path / "keys")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o777])
def test_a_secret_that_others_may_touch_is_refused(mode: int, tmp_path: Path) -> None:
    path = keys.save(CLIENT, tmp_path / "my keys")
    path.chmod(mode)
    with pytest.raises(keys.KeyExposedError) as caught:
        keys.load(path)
    assert f"mode {mode:04o}: run `chmod 600 '{path}'`" in caught.value.message
    assert CLIENT.secret not in caught.value.message
    path.chmod(0o400)
    assert keys.load(path) == CLIENT


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(keys.KeyMissingError, match=r"cam-2\.key"):
        keys.load(tmp_path / "cam-2.key")
    with pytest.raises(keys.KeyMissingError):
        keys.load_public(tmp_path / "cam-2.pub")


def rewritten(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "name: is required"),
        ("name = ", "line 1"),
        (b"\xff\xfe", "not text"),
        ('name = "cam-1"\npublic = "x"', "secret: is required"),
        ('name = "a/b"\npublic = "x"\nsecret = "y"', "name: expected a string"),
        ('name = "a"\npublic = "x"\nsecret = "y"\nkey = 1', "unknown key"),
        ('name = "a"\npublic = "x"\nsecret = "y"', "secret key is not a key"),
        (f'name = "a"\npublic = "x"\nsecret = "{"~" * 40}"', "secret key is not a key"),
        (f'name = "a"\npublic = "x"\nsecret = "{"é" * 40}"', "secret key is not a key"),
        ("#" * 5000, "larger"),
    ],
)
def test_a_damaged_key_file_is_refused(text: str | bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(keys.KeyMalformedError, match=what) as caught:
        keys.load(rewritten(tmp_path / "cam-1.key", text))
    assert "cam-1.key" in caught.value.message


def test_keys_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    path = keys.save(CLIENT, tmp_path)
    rewritten(path, path.read_text().replace(CLIENT.public, SERVER_PUBLIC))
    with pytest.raises(keys.KeyMismatchError, match="belong together") as caught:
        keys.load(path)
    assert CLIENT.secret not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "cam-1", f"cam-1 {SERVER_PUBLIC} x", "cam-1 short", f"a/b {SERVER_PUBLIC}"]
)
def test_a_damaged_public_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(keys.KeyMalformedError, match=r"cam-1\.pub"):
        keys.load_public(rewritten(tmp_path / "cam-1.pub", text))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.key", 0o600)
    for path in (tmp_path, tmp_path / "pipe.key"):
        with pytest.raises(keys.KeyMalformedError, match="is not a file"):
            keys.load(path)


def test_what_the_machine_refuses_to_open_is_a_resource_error(tmp_path: Path) -> None:
    with pytest.raises(keys.KeyFileError, match="too long"):
        keys.load(tmp_path / ("x" * 300))


def test_the_default_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert keys.default_dir() == tmp_path / "headtail" / "keys"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert keys.default_dir() == Path("/home/someone/.config/headtail/keys")
