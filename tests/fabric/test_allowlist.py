import logging
import os
import stat
import tempfile
import threading
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric import allowlist, keys
from headtail_fabric.allowlist import AllowList, Member, Role
from headtail_fabric.errors import ConfigError

# The example keys of zmq_curve(7), and others made like them.
KEYS = (
    "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
    "0" * 40,
    "1" * 40,
)
DAY = date(2026, 5, 1)


def member(name: str, key: int = 0, role: Role = Role.DEVICE) -> Member:
    return Member(name=name, public=KEYS[key], role=role, added=DAY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "allow.toml"


def enrolled(path: Path, *members: Member) -> AllowList:
    for each in members:
        allowlist.enrol(path, each)
    return AllowList(path)


def test_the_file_is_readable_by_people(path: Path) -> None:
    allowlist.enrol(path, member("cam.1"))
    allowlist.enrol(path, member("desk", 1, Role.OPERATOR))
    assert (
        path.read_text()
        == f"""\
# Headtail allow-list, kept by `headtail keys enrol|revoke`; comments get lost.
schema = 1

[members."cam.1"]
public = "{KEYS[0]}"
role = "device"
added = "2026-05-01"

[members."desk"]
public = "{KEYS[1]}"
role = "operator"
added = "2026-05-01"
"""
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_hand_written_file_is_read(path: Path) -> None:
    path.write_text(
        f"schema=1\nmembers.cam = {{public = '{KEYS[0]}', role = 'device', added = 2026-05-01}}"
    )
    assert allowlist.read_members(path) == {"cam": member("cam")}


def test_lookup_tells_who_a_key_stands_for(path: Path) -> None:
    allow_list = enrolled(path, member("cam"), member("desk", 1, Role.OPERATOR))
    assert allow_list.lookup(KEYS[0]) == member("cam")
    assert allow_list.lookup(KEYS[1]) == member("desk", 1, Role.OPERATOR)
    assert allow_list.lookup(KEYS[2]) is None
    assert allow_list.members() == (member("cam"), member("desk", 1, Role.OPERATOR))
    assert repr(allow_list) == f"AllowList({path}, members=2, problem=None)"


def test_a_name_and_a_key_are_enrolled_once(path: Path) -> None:
    allow_list = enrolled(path, member("cam"))
    with pytest.raises(allowlist.AlreadyEnrolledError, match="cam is enrolled since 2026-05-01"):
        allowlist.enrol(path, member("cam", 1))
    with pytest.raises(allowlist.AlreadyEnrolledError, match="this key is enrolled as cam"):
        allowlist.enrol(path, member("desk"))
    assert allow_list.members() == (member("cam"),)


def test_bad_names_and_keys_are_not_enrolled(path: Path) -> None:
    with pytest.raises(keys.BadNameError):
        allowlist.enrol(path, member('x"]\n'))
    with pytest.raises(keys.BadKeyError):
        allowlist.enrol(path, Member(name="cam", public="short", role=Role.DEVICE, added=DAY))
    assert not path.exists()


def test_revoking_nobody_names_the_nearest(path: Path) -> None:
    enrolled(path, member("cam-1"))
    with pytest.raises(allowlist.NotEnrolledError, match=r"'cam-2', did you mean cam-1\?"):
        allowlist.revoke(path, "cam-2")
    with pytest.raises(allowlist.NotEnrolledError, match=r"'zzz'$"):
        allowlist.revoke(path, "zzz")


def test_a_full_list_takes_nobody_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowlist, "MAX_MEMBERS", 1)
    enrolled(path, member("cam"))
    with pytest.raises(allowlist.AllowListFullError):
        allowlist.enrol(path, member("desk", 1))
    monkeypatch.setattr(allowlist, "MAX_MEMBERS", 0)
    with pytest.raises(allowlist.AllowListError, match="1 members, at most 0"):
        AllowList(path)


def test_changes_take_hold_at_the_next_look(path: Path) -> None:
    allow_list = enrolled(path, member("cam"))
    assert allow_list.refresh() == {}
    allowlist.enrol(path, member("desk", 1))
    assert allow_list.lookup(KEYS[1]) == member("desk", 1)
    assert allow_list.refresh() == {}
    assert allowlist.revoke(path, "cam") == member("cam")
    assert allow_list.lookup(KEYS[0]) is None
    assert allow_list.refresh() == {KEYS[0]: "cam"}, "also when a lookup noticed first"
    assert allow_list.refresh() == {}


def test_a_key_that_comes_back_as_another_is_gone_first(path: Path) -> None:
    allow_list = enrolled(path, member("cam"))
    allowlist.revoke(path, "cam")
    allowlist.enrol(path, member("cam", role=Role.OPERATOR))
    assert allow_list.refresh() == {KEYS[0]: "cam"}
    assert allow_list.lookup(KEYS[0]) == member("cam", role=Role.OPERATOR)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "schema: is required"),
        ("schema = 2", "schema: expected one of 1"),
        ("schema = 1\n[members.cam", "at line 2"),
        ('schema = 1\n[members.cam]\nrole = "device"', "members.cam.public: is required"),
        (f'schema = 1\n[members.cam]\npublic = "{"~" * 40}"\nrole = "device"\nadded = 2026-05-01',
         "member 'cam': "),
        (f'schema = 1\n[members."a b"]\npublic = "{KEYS[0]}"\nrole = "device"\nadded = 2026-05-01',
         "'a b' is not a name"),
        ('schema = 1\n[members.cam]\nrole = "king"', 'role: expected one of "device", "operator"'),
        ("schema = 1\n[member.cam]", "did you mean members?"),
        (f'schema = 1\n[members]\na = {{public = "{KEYS[0]}", role = "device", added = 2026-05-01}}'
         f'\nb = {{public = "{KEYS[0]}", role = "device", added = 2026-05-01}}',
         "a and b have the same key"),
        (None, "no file"),
    ],
)  # fmt: skip
def test_a_broken_file_keeps_the_last_good_list_and_is_reported_once(
    path: Path, text: str | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    allow_list = enrolled(path, member("cam"))
    good = path.read_text()
    path.unlink() if text is None else path.write_text(text)
    with caplog.at_level(logging.ERROR):
        assert allow_list.lookup(KEYS[0]) == member("cam")
        assert allow_list.lookup(KEYS[1]) is None
        assert allow_list.refresh() == {}
    assert len(caplog.records) == 1
    assert problem in (allow_list.problem or "")

    with pytest.raises(ConfigError):
        AllowList(path)
    if text is not None:
        with pytest.raises(ConfigError):
            allowlist.enrol(path, member("desk", 1))
        assert path.read_text() == text, "a broken file is not overwritten"

    path.write_text(good)
    assert allow_list.lookup(KEYS[0]) == member("cam")
    assert allow_list.problem is None
    assert allow_list.refresh() == {}


def test_a_list_that_anybody_may_write_is_refused(path: Path) -> None:
    allow_list = enrolled(path, member("cam"))
    path.chmod(0o666)
    with pytest.raises(allowlist.AllowListExposedError, match="run `chmod o-w"):
        AllowList(path)
    assert allow_list.lookup(KEYS[0]) == member("cam")
    assert "0666" in (allow_list.problem or "")
    path.chmod(0o664)
    assert allow_list.lookup(KEYS[0]) == member("cam")
    assert allow_list.problem is None


def test_mode_and_link_survive_a_change(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "allow.toml"
    link.symlink_to(real)
    allowlist.enrol(link, member("cam"))
    real.chmod(0o600)
    allowlist.enrol(link, member("desk", 1))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert list(allowlist.read_members(link)) == ["cam", "desk"]


def test_a_failed_write_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enrolled(path, member("cam"))
    before = path.read_text()

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(allowlist.AllowListWriteError, match="No space left"):
            allowlist.enrol(path, member("desk", 1))
    assert path.read_text() == before
    path.with_name(".allow.toml.new").write_text("left by a power cut")
    allowlist.enrol(path, member("desk", 1))
    assert {each.name for each in path.parent.iterdir()} == {"allow.toml", "allow.toml.lock"}


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(allowlist.AllowListWriteError, match=r"file/allow\.toml"):
        allowlist.enrol(tmp_path / "file" / "allow.toml", member("cam"))


def test_writers_at_the_same_time_lose_nothing(path: Path) -> None:
    names = [f"cam-{index}" for index in range(8)]

    def enrol(index: int) -> None:
        public = keys.generate("x").public
        allowlist.enrol(path, Member(name=names[index], public=public, role=Role.DEVICE, added=DAY))

    threads = [threading.Thread(target=enrol, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(allowlist.read_members(path)) == set(names)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["enrol", "revoke"]), st.integers(0, 3), st.integers(0, 3)),
    max_size=12,
)


@settings(max_examples=30)
@given(changes=CHANGES)
def test_any_sequence_of_changes_is_followed(changes: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "allow.toml"
        path.write_text("schema = 1")
        allow_list = AllowList(path)
        model: dict[str, Member] = {}
        for action, who, key in changes:
            name, before = f"m{who}", set(model.values())
            if action == "enrol":
                taken = name in model or KEYS[key] in {each.public for each in before}
                if taken:
                    with pytest.raises(allowlist.AlreadyEnrolledError):
                        allowlist.enrol(path, member(name, key))
                else:
                    allowlist.enrol(path, member(name, key))
                    model[name] = member(name, key)
            elif name in model:
                assert allowlist.revoke(path, name) == model.pop(name)
            else:
                with pytest.raises(allowlist.NotEnrolledError):
                    allowlist.revoke(path, name)
            gone = {each.public: each.name for each in before - set(model.values())}
            assert allow_list.refresh() == gone
            assert set(allow_list.members()) == set(model.values())


def test_the_default_file_lies_beside_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/xdg-test")
    assert allowlist.default_path() == Path("/etc/xdg-test/headtail/allow.toml")
