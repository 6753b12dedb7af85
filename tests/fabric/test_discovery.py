import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric import keys
from headtail_fabric.discovery import Announcement, fingerprint, mdns
from headtail_fabric.discovery.announcement import BadAnnouncementError
from headtail_fabric.discovery.mdns import DiscoveryMissingError
from headtail_fabric.keys import BadKeyError
from headtail_fabric.wire import VERSION

KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
FULL = Announcement(name="edge-1", fingerprint=fingerprint(KEY), bundles=("ab" * 6, "cd" * 6))


def record(announcement: Announcement) -> dict[bytes, bytes | None]:
    return {key.encode(): text.encode() for key, text in announcement.to_txt().items()}


@pytest.mark.parametrize("announcement", [FULL, Announcement(name="edge")])
def test_an_announcement_comes_back(announcement: Announcement) -> None:
    assert Announcement.from_txt(record(announcement)) == announcement


def test_a_record_keeps_within_its_limits() -> None:
    many = Announcement(name="e" * 64, fingerprint=FULL.fingerprint, bundles=("ab" * 32,) * 200)
    txt = many.to_txt()
    assert all(len(key) + 1 + len(text) <= 255 for key, text in txt.items())
    assert Announcement.from_txt(record(many)).bundles == ("ab" * 6,) * 16


def test_the_fingerprint_is_of_the_key_and_of_nothing_else() -> None:
    assert len(fingerprint(KEY)) == 32
    assert fingerprint(KEY) != fingerprint(keys.generate("other").public)
    with pytest.raises(BadKeyError):
        fingerprint("short")


@pytest.mark.parametrize(
    "changed",
    [
        {b"v": b"x"},
        {b"v": b"12345"},
        {b"v": None},
        {b"fp": b"zz" * 16},
        {b"fp": b"ab"},
        {b"b": b"ab" * 6 + b"," + b"xy" * 6},
        {b"b": b",".join([b"ab" * 6] * 17)},
        {b"name": b"\xff"},
        {b"name": b"line\nbreak"},
        {b"name": b"n" * 65},
    ],
)
def test_what_makes_no_sense_is_refused(changed: dict[bytes, bytes | None]) -> None:
    with pytest.raises(BadAnnouncementError):
        Announcement.from_txt({**record(FULL), **changed})


@given(
    st.dictionaries(
        st.sampled_from([b"v", b"fp", b"name", b"b", b"x"]), st.binary(max_size=80) | st.none()
    )
)
def test_any_record_is_read_or_refused(found: dict[bytes, bytes | None]) -> None:
    try:
        heard = Announcement.from_txt(found)
    except BadAnnouncementError:
        return
    assert heard.version >= 0
    assert VERSION == 1


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(DiscoveryMissingError) as caught:
        mdns.Browser({})
    assert "headtail[discovery]" in caught.value.advice
