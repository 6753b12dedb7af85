"""Verifying pushed bundles and keeping the good ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edge_doubles import write_with_a_bad_coder
from headtail_edge.pushed import PushedBundles, TooManyBundlesError, WrongBundleError
from headtail_models.bundle import Bundle, BundleError, SecretKey, open_bundle
from headtail_models.bundle.errors import BadCoderError, OversizedBundleError, UntrustedSignerError
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture
def packed(specimen: Bundle, tmp_path: Path) -> Path:
    return specimen.pack(tmp_path / "arrived.part")


def kept(folder: Path, **options: object) -> PushedBundles:
    return PushedBundles(
        folder / "pushed",
        **{"max_bytes": 2**20, "max_bundles": 2, **options},  # type: ignore[arg-type]
    )


def test_a_good_bundle_is_moved_in_under_its_digest(
    specimen: Bundle, packed: Path, tmp_path: Path
) -> None:
    pushed = kept(tmp_path)
    folder = pushed.take_in(packed, specimen.digest)
    assert folder == tmp_path / "pushed" / specimen.digest.hex()
    assert open_bundle(folder).digest == specimen.digest
    assert pushed.paths() == [folder]


def nothing_left(folder: Path) -> bool:
    return not [path for path in (folder / "pushed").iterdir() if path.name != ".lock"]


def test_another_bundle_than_asked_for_is_refused(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongBundleError, match="came in place of 000000000000"):
        kept(tmp_path).take_in(packed, bytes(32))
    assert nothing_left(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:3000] + bytes([data[3000] ^ 1]) + data[3001:],
        lambda data: b"",
        lambda data: b"PK\x03\x04" + data[::-1],
    ],
)
def test_a_damaged_bundle_is_refused(
    specimen: Bundle, packed: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(BundleError):
        kept(tmp_path).take_in(packed, specimen.digest)
    assert not (tmp_path / "pushed" / specimen.digest.hex()).exists()


def test_a_bundle_that_unpacks_to_too_much_is_refused(
    specimen: Bundle, packed: Path, tmp_path: Path
) -> None:
    with pytest.raises(OversizedBundleError):
        kept(tmp_path, max_bytes=100).take_in(packed, specimen.digest)


def test_with_trusted_keys_another_signature_does_not_do(tmp_path: Path) -> None:
    ours, theirs = SecretKey.generate(), SecretKey.generate()
    bundle = open_bundle(write_specimen(tmp_path / "signed", key=theirs))
    packed = bundle.pack(tmp_path / "arrived.part")
    with pytest.raises(UntrustedSignerError):
        kept(tmp_path, trusted=[ours.public]).take_in(packed, bundle.digest)
    assert kept(tmp_path, trusted=[theirs.public]).take_in(packed, bundle.digest).is_dir()


def test_more_bundles_than_are_kept_are_refused(
    specimen: Bundle, packed: Path, tmp_path: Path
) -> None:
    pushed = kept(tmp_path, max_bundles=1)
    pushed.take_in(packed, specimen.digest)
    other = open_bundle(write_specimen(tmp_path / "other", version="2.0"))
    with pytest.raises(TooManyBundlesError):
        pushed.take_in(other.pack(tmp_path / "other.part"), other.digest)


def test_a_bundle_whose_coder_does_not_fit_is_refused(tmp_path: Path) -> None:
    bad = write_with_a_bad_coder(tmp_path / "bad")
    with pytest.raises(BadCoderError):
        kept(tmp_path).take_in(bad.pack(tmp_path / "arrived.part"), bad.digest)
    assert nothing_left(tmp_path)
