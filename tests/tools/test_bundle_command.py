"""`headtail bundle`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from headtail.commands import bundle as command
from headtail_models.bundle import BundleCache, open_bundle, write_bundle
from headtail_models.bundle.errors import (
    KeyFileError,
    NoSuchBundleError,
    TruncatedFileError,
    UnsignedBundleError,
    UntrustedSignerError,
)
from headtail_models.bundle.keys import load_public_key
from headtail_models.bundle.specimen import write_specimen, write_stages
from headtail_models.stage import StageLoadError

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BundleCache:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return BundleCache()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `headtail bundle ...` and returns what it printed."""

    def run(*words: str | Path) -> str:
        parser = argparse.ArgumentParser()
        command.add(parser.add_subparsers())
        args = parser.parse_args(["bundle", *map(str, words)])
        assert args.handler(args) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_specimen(tmp_path / "specimen-folder")


@pytest.fixture
def cached(cache: BundleCache) -> Path:
    with cache.workshop() as workshop:
        return cache.adopt(write_specimen(workshop / "bundle"))


def test_an_empty_list_says_what_can_be_built(
    run: Run, cache: BundleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "known", lambda: ("one", "two"))
    assert run("list") == (f"No bundles in {cache.root}\nNot built yet: one, two\n")


def test_list(run: Run, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "known", lambda: ("specimen",))
    printed = run("list")
    assert "specimen" in printed
    assert cached.name[:12] in printed
    assert "6.53 kB" in printed
    assert "Not built yet" not in printed
    (cached / "manifest.json").write_text("{}")
    assert "damaged: manifest.json is another one" in run("list")


def test_show(run: Run, folder: Path) -> None:
    printed = run("show", folder)
    assert f"digest    {open_bundle(folder).digest.hex()}\n" in printed
    assert "signed    no\n" in printed
    assert "task      classify, 3 labels, 16x16 pixels\n" in printed
    assert "full      top-1 0.7500 on none: the numbers are made up\n" in printed
    assert "default   cut late, codec q8+zstd\n" in printed
    rows = [" ".join(line.split()) for line in printed.replace("│", " ").splitlines()]
    early = "early 8x16x16 55.3 k 50.0 55.3 k 50.0 8,192 2,048 1,024"
    assert early in rows
    assert "late 12x8x8 111 k 100.0 36 0.0 3,072 768 384" in rows
    assert "late q8+zstd 0.7400 0.0100 700" in rows


def test_show_prints_the_manifest_as_it_is(run: Run, folder: Path) -> None:
    printed = run("show", folder, "--json")
    assert printed == (folder / "manifest.json").read_text()
    assert msgspec.json.decode(printed)["name"] == "specimen"


def test_what_a_bundle_says_of_itself_is_no_markup(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    manifest = write_stages(source)
    cuts = tuple(replace(cut, measured=(), codecs=("raw",)) for cut in manifest.cuts)
    odd = replace(
        manifest,
        description="[red]shout[/] :smile:",
        cuts=cuts,
        default_codec="raw",
        full_value=None,
    )
    printed = run("show", write_bundle(source, odd, tmp_path / "odd"))
    assert "[red]shout[/] :smile:" in printed
    assert "Measured" not in printed
    assert "full " not in printed
    assert "late 12x8x8 111 k 100.0 36 0.0 3,072 - -" in " ".join(printed.replace("│", " ").split())


def _fake_build(name: str, out: Path, *, progress: object) -> Path:
    assert name == "specimen"
    assert progress is not None
    return write_specimen(out)


def test_build_into_the_cache(
    run: Run, cache: BundleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "build", _fake_build)
    digest, path = run("build", "specimen").split()
    assert Path(path) == cache.find("specimen") == cache.root / digest
    assert sorted(entry.name for entry in cache.root.iterdir()) == [".lock", digest]
    assert run("build", "specimen").split() == [digest, path]


def test_build_elsewhere(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "build", _fake_build)
    digest, path = run("build", "specimen", "--out", tmp_path / "here").split()
    assert Path(path) == tmp_path / "here"
    assert open_bundle(Path(path)).digest.hex() == digest


def test_keys_sign_pack_verify(run: Run, folder: Path, tmp_path: Path) -> None:
    printed = run("keys", "new", "site")
    fingerprint = load_public_key(tmp_path / "site.pub").fingerprint
    assert fingerprint in printed
    assert run("keys", "show", "site.pub") == f"{fingerprint}\n"
    assert fingerprint in run("sign", folder, "--key", "site.key")
    assert run("pack", folder).startswith("specimen-1.0.headtail  ")
    packed = tmp_path / "specimen-1.0.headtail"
    assert run("verify", packed) == (
        f"specimen-1.0: 7 files whole; signed by {fingerprint} (not checked against trusted keys)\n"
    )
    assert run("verify", packed, "--trust", "site.pub", "--load") == (
        f"specimen-1.0: 7 files whole, every stage loads; signed by {fingerprint} (trusted)\n"
    )
    run("keys", "new", "other")
    run("verify", packed, "--trust", "other.pub", "--trust", "site.pub")
    with pytest.raises(UntrustedSignerError):
        run("verify", packed, "--trust", "other.pub")
    run("sign", packed, "--key", "other.key")
    run("verify", packed, "--trust", "other.pub")


def test_verify_finds_the_fault(run: Run, folder: Path) -> None:
    assert run("verify", folder) == "specimen-1.0: 7 files whole; unsigned\n"
    run("keys", "new", "site")
    with pytest.raises(UnsignedBundleError):
        run("verify", folder, "--trust", "site.pub")
    os.truncate(folder / "weights.bin", 0)
    with pytest.raises(TruncatedFileError, match=r"weights\.bin"):
        run("verify", folder)


def test_verify_loads_stages_when_asked(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    manifest = write_stages(source)
    (source / "tail-late.onnx").write_bytes(b"no model")
    broken = write_bundle(source, manifest, tmp_path / "broken")
    run("verify", broken)
    with pytest.raises(StageLoadError, match=r"tail-late\.onnx"):
        run("verify", broken, "--load")


def test_bundles_of_the_cache_go_by_name(run: Run, cached: Path, tmp_path: Path) -> None:
    assert cached.name in run("show", "specimen")
    assert run("verify", cached.name[:10]).startswith("specimen-1.0:")
    assert run("pack", "specimen-1.0", "out.headtail").startswith("out.headtail  ")
    assert open_bundle(tmp_path / "out.headtail").digest.hex() == cached.name
    with pytest.raises(NoSuchBundleError, match="did you mean 'specimen'"):
        run("show", "specimon")


def test_signing_without_a_key(run: Run, folder: Path) -> None:
    with pytest.raises(KeyFileError, match=r"site\.key"):
        run("sign", folder, "--key", "site.key")


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    return write_specimen(tmp_path / "gated", gated=True)


def test_show_tells_of_coders_and_gates(run: Run, gated: Path) -> None:
    printed = run("show", gated)
    rows = [" ".join(line.split()) for line in printed.replace("│", " ").splitlines()]
    assert "code 6x8x8 115 k 96.1 4.64 k 3.9 1,536 - -" in rows
    assert "code rans steps 0.0625 code.rans 1,860" in rows
    assert "code rans-coarse 4 bits code-coarse.rans 1,828" in rows
    assert "code presence 8x16x16 presence 55.3 k 0.4000 20.0% 0.9900" in rows
    assert "code guess 12x8x8 max-probability eager 55.3 k 0.6000 70.0% 0.0300" in rows
    assert "code guess 12x8x8 max-probability careful * 55.3 k 0.9000 40.0% 0.0100" in rows
    assert "code guess 12x8x8 max-probability closed 55.3 k closed 0.0% 0.0000" in rows
    assert "code rans 0.7300 0.0200 90" in rows


def test_a_bundle_without_coders_and_gates_shows_no_such_tables(run: Run, folder: Path) -> None:
    printed = run("show", folder)
    assert "Entropy coders" not in printed
    assert "Gates" not in printed


def test_steps_of_several_sizes_are_shown_as_a_range(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    manifest = write_stages(source, gated=True)
    cut = manifest.cuts[2]
    coder = replace(cut.coders["rans"], steps=(0.25, 0.5, 0.5, 0.5, 1.0, 2.0))
    odd = replace(cut, coders=cut.coders | {"rans": coder})
    path = write_bundle(source, replace(manifest, cuts=(*manifest.cuts[:2], odd)), tmp_path / "b")
    assert "steps 0.25 to 2" in run("show", path)


def test_verify_loads_gates_and_coders_when_asked(run: Run, gated: Path, tmp_path: Path) -> None:
    assert "15 files whole, every stage loads" in run("verify", gated, "--load")
    source = tmp_path / "source"
    source.mkdir()
    manifest = write_stages(source, gated=True)
    (source / "branch-guess.onnx").write_bytes(b"no model")
    broken = write_bundle(source, manifest, tmp_path / "broken")
    with pytest.raises(StageLoadError, match=r"branch-guess\.onnx"):
        run("verify", broken, "--load")
