from pathlib import Path

import pytest

from headtail.cli import main
from headtail_fabric import allowlist, keys
from headtail_fabric.allowlist import Role
from headtail_fabric.keys import KeyPair
from headtail_fabric.seal import key as seal_key

# The example keys of zmq_curve(7); square brackets, which a terminal library may take for markup.
CAMERA = KeyPair(
    name="cam-1",
    public="Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    secret="D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs",
)


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("headtail_fabric.logs.configure", lambda **_: None)
    return tmp_path / "headtail"


def test_new_makes_a_pair_and_says_what_next(
    config_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "edge-1"]) == 0
    pair = keys.load(config_home / "keys" / "edge-1.key")
    out = capsys.readouterr().out
    assert pair.public in out
    assert pair.secret not in out
    assert f"headtail keys enrol {config_home}/keys/edge-1.pub" in out


def test_new_takes_a_folder_and_never_overwrites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["keys", "new", "edge-1", "--dir", str(tmp_path / "my keys")]
    assert main(words) == 0
    assert f"headtail keys enrol '{tmp_path}/my keys/edge-1.pub'" in capsys.readouterr().out
    before = (tmp_path / "my keys" / "edge-1.key").read_text()
    assert main(words) == 1
    assert "keys are never overwritten" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "my keys" / "edge-1.key").read_text() == before


def test_a_bad_name_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "a/b"]) == 1
    assert "headtail: 'a/b' is not a name\n  That can't be a name." in capsys.readouterr().err


def test_enrol_show_and_revoke_a_public_file(
    config_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys.save(CAMERA, config_home / "keys")
    assert main(["keys", "enrol", str(config_home / "keys" / "cam-1.pub")]) == 0
    assert "cam-1 may connect as device" in capsys.readouterr().out

    assert main(["keys", "show"]) == 0
    out = capsys.readouterr().out
    assert out.count(CAMERA.public) == 2, "whole, in both tables"
    assert "here" in out
    assert "device" in out
    assert CAMERA.secret not in out
    assert "\x1b" not in out, "no colours where no terminal is"

    assert main(["keys", "revoke", "cam-1"]) == 0
    assert "cam-1 may no longer connect" in capsys.readouterr().out
    assert allowlist.read_members(config_home / "allow.toml") == {}
    assert main(["keys", "revoke", "cam-1"]) == 1


def test_enrol_a_bare_key(tmp_path: Path) -> None:
    allow = tmp_path / "list.toml"
    words = ["keys", "enrol", CAMERA.public, "--allow", str(allow)]
    assert main([*words, "--name", "desk", "--role", "operator"]) == 0
    member = allowlist.read_members(allow)["desk"]
    assert (member.public, member.role) == (CAMERA.public, Role.OPERATOR)


def test_a_public_file_may_be_enrolled_under_another_name(config_home: Path) -> None:
    keys.save(CAMERA, config_home / "keys")
    assert main(["keys", "enrol", str(config_home / "keys/cam-1.pub"), "--name", "door"]) == 0
    assert list(allowlist.read_members(config_home / "allow.toml")) == ["door"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([CAMERA.public], "a bare key needs --name"),
        (["cam-1.key"], "give the .pub file beside it"),
        (["cam-1.pub", "--role", "king"], "invalid choice: 'king'"),
        ([], "required: PUBFILE|KEY"),
    ],
)
def test_wrong_usage_of_enrol(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["keys", "enrol", *words])
    assert caught.value.code == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["no-such.pub"], "no key file no-such.pub"),
        (["~" * 40, "--name", "x"], "is not Z85 text"),
        ([CAMERA.public, "--name", "a b"], "'a b' is not a name"),
    ],
)
def test_what_can_not_be_enrolled_is_refused(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "enrol", *words]) == 1
    assert what in capsys.readouterr().err


def test_show_with_nothing_to_show(config_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "show"]) == 0
    assert capsys.readouterr().out == (
        f"No key at all in {config_home}/keys\nNobody is enrolled in {config_home}/allow.toml\n"
    )


def test_show_one_name(config_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys.save(CAMERA, config_home / "keys")
    keys.save(keys.generate("cam-2"), config_home / "keys")
    assert main(["keys", "show", "cam-1"]) == 0
    out = capsys.readouterr().out
    assert CAMERA.public in out
    assert "cam-2" not in out
    assert f"cam-1 is not enrolled in {config_home}/allow.toml" in out

    assert main(["keys", "enrol", str(config_home / "keys" / "cam-2.pub"), "--name", "door"]) == 0
    assert main(["keys", "show", "door"]) == 0
    assert f"No key door in {config_home}/keys" in capsys.readouterr().out

    assert main(["keys", "show", "cam-9"]) == 1
    assert "no key named 'cam-9'" in capsys.readouterr().err


def test_show_tells_whose_secret_is_elsewhere_and_what_is_damaged(
    config_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys.save(CAMERA, config_home / "keys").unlink()
    (config_home / "keys" / "odd.pub").write_text("not a key")
    assert main(["keys", "show"]) == 0
    out = capsys.readouterr().out
    assert "elsewhere" in out
    assert "damaged" in out


def test_a_broken_list_is_reported(config_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_home.mkdir()
    (config_home / "allow.toml").write_text("schema = 1\n[members")
    assert main(["keys", "show"]) == 1
    assert "allow.toml: " in capsys.readouterr().err


def test_seal_makes_an_edges_sealing_pair_and_show_tells_it_from_the_other(
    config_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "edge-1"]) == 0
    assert main(["keys", "seal", "edge-1"]) == 0
    pair = seal_key.load(config_home / "keys" / "edge-1.seal")
    out = capsys.readouterr().out
    assert pair.public_text in out
    assert f"--seal-to {config_home}/keys/edge-1.seal.pub" in out

    assert main(["keys", "show", "edge-1"]) == 0
    out = capsys.readouterr().out
    assert pair.public_text in out
    assert keys.load(config_home / "keys" / "edge-1.key").public in out
    assert "damaged" not in out
    assert main(["keys", "seal", "edge-1"]) == 1
