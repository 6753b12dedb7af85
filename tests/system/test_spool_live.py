"""Real processes: a device that spools is killed, starts again, and the edge gets what it kept."""

from collections import Counter
from pathlib import Path

import pytest

from headtail_device.spool import FolderDisk
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, records, wait_until, write_clip

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


def settings(folder: Path, bundle: Path, source: Path, endpoint: str, out: Path) -> Path:
    path = folder / f"{out.stem}.toml"
    path.write_text(
        f'source = "{source}"\nbundle = "{bundle}"\n'
        f'[edge]\nendpoint = "{endpoint}"\npatience_s = 0.1\n'
        f'[spool]\nfolder = "{folder / "spool"}"\n[output]\njson = "{out}"\n'
    )
    return path


def outcomes(path: Path) -> Counter[str]:
    return Counter(record["outcome"] for record in records(path))


def keys(path: Path, *, final: bool) -> list[str]:
    return [record["spool"] for record in records(path) if record.get("final") is final]


def test_a_killed_device_loses_nothing_that_was_spooled(bundle: Path, tmp_path: Path) -> None:
    with Headtail("edge", "serve", "--bind", "tcp://127.0.0.1:0", "--bundle", str(bundle)) as edge:
        endpoint = edge.ready()["endpoint"]  # an address that nobody serves any more
    long_clip = write_clip(tmp_path / "long.mp4", frames=2000)
    clip = write_clip(tmp_path / "clip.mp4", frames=10)
    killed, after = tmp_path / "killed.jsonl", tmp_path / "after.jsonl"
    with Headtail(
        "device", "run", "--config", settings(tmp_path, bundle, long_clip, endpoint, killed)
    ) as device:
        wait_until(lambda: outcomes(killed)["spooled"] >= 20, "spooled frames")
        device.kill()
    spooled = keys(killed, final=False)
    assert set(outcomes(killed)) == {"spooled"}
    with (
        Headtail("edge", "serve", "--bind", endpoint, "--bundle", str(bundle)) as edge,
        Headtail(
            "device", "run", "--config", settings(tmp_path, bundle, clip, endpoint, after)
        ) as device,
    ):
        edge.ready()
        assert device.process.wait(PATIENCE_S) == 0, device.errors()
    concluded = keys(after, final=True)
    own = keys(after, final=False)
    assert len(set(concluded)) == len(concluded)
    # The last one may have reached the disk, and not yet the output, when the kill came.
    assert set(concluded) >= {*spooled, *own}
    assert len(concluded) <= len(spooled) + len(own) + 1
    late = [record for record in records(after) if record.get("final")]
    assert {record["outcome"] for record in late} == {"edge"}
    assert all("answer" in record for record in late)
    assert sum("inherited" in record for record in late) == len(concluded) - len(own)
    assert not list((tmp_path / "spool").glob("*.spool"))


def test_a_second_device_is_told_that_the_spool_is_in_use(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=5)
    held = FolderDisk(tmp_path / "spool")
    chosen = settings(tmp_path, bundle, clip, "tcp://127.0.0.1:9", tmp_path / "out.jsonl")
    with Headtail("device", "run", "--config", chosen) as refused:
        assert refused.process.wait(PATIENCE_S) == 1
        assert "Another device process uses that spool" in refused.errors()
    held.close()
