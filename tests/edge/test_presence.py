from pathlib import Path

import pytest

from headtail_edge import presence
from headtail_edge.config import EdgeConfig
from headtail_fabric import keys
from headtail_fabric.discovery import Announcement, fingerprint


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Announcement]]:
    """What is announced, in place of announcing it."""
    seen: list[tuple[str, Announcement]] = []
    monkeypatch.setattr(presence, "Announcer", lambda *words: seen.append(words))
    return seen


def test_an_edge_announces_its_key_and_its_bundles(
    said: list[tuple[str, Announcement]], tmp_path: Path
) -> None:
    pair = keys.generate("edge-1")
    config = EdgeConfig(name="hall", key=keys.save(pair, tmp_path))
    presence.announced(config, endpoint="tcp://0.0.0.0:5557", digests=[bytes(32)])
    ((endpoint, announcement),) = said
    assert endpoint == "tcp://0.0.0.0:5557"
    assert announcement.name == "hall"
    assert announcement.fingerprint == fingerprint(pair.public)
    assert Announcement.from_txt(
        {key.encode(): text.encode() for key, text in announcement.to_txt().items()}
    ).bundles == ("0" * 12,)


def test_an_edge_without_keys_announces_none(said: list[tuple[str, Announcement]]) -> None:
    presence.announced(EdgeConfig(), endpoint="tcp://127.0.0.1:5557", digests=[])
    assert said[0][1].fingerprint == ""
