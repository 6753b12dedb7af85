"""The one place where device, edge and measurements get their codecs."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headtail_fabric.codec import CodecError
from headtail_models.bundle import Bundle, open_bundle, write_bundle
from headtail_models.bundle.codecs import PictureCodecs, TensorCodecs, read_coding_model
from headtail_models.bundle.errors import (
    BadCoderError,
    CodecNotAllowedError,
    MissingFileError,
    UnknownCutError,
)
from headtail_models.bundle.limits import MAX_CODER_BYTES
from headtail_models.bundle.manifest import Coder, Cut
from headtail_models.bundle.specimen import write_specimen, write_stages

SHAPE = (1, 6, 8, 8)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("codecs") / "gated", gated=True))


@pytest.fixture(scope="module")
def codecs(bundle: Bundle) -> TensorCodecs:
    return bundle.codecs("code")


def tensor(seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).exponential(0.2, SHAPE).astype(np.float32)


def test_a_cut_has_the_codecs_that_its_manifest_allows(codecs: TensorCodecs) -> None:
    assert codecs.ids == ("raw", "rans", "rans-coarse")
    assert [codecs.new(codec_id).id for codec_id in codecs.ids] == list(codecs.ids)


@pytest.mark.parametrize(("codec_id", "step"), [("rans", 0.0625), ("rans-coarse", 0.2)])
def test_a_coder_comes_back_within_half_a_step(
    codecs: TensorCodecs, codec_id: str, step: float
) -> None:
    codec = codecs.new(codec_id)
    payload = codec.encode(np.minimum(tensor(), 1.9))
    back = codec.decode(payload, SHAPE)
    assert back.dtype == np.float32
    assert np.abs(back - np.minimum(tensor(), 1.9)).max() <= step / 2 + 1e-6
    assert memoryview(payload).nbytes < tensor().nbytes / 6
    again = codecs.new(codec_id)
    assert again is not codec
    assert np.array_equal(again.decode(payload, SHAPE), back)


def test_a_table_is_named_where_a_coder_has_one(codecs: TensorCodecs, bundle: Bundle) -> None:
    assert [codecs.table(codec_id) for codec_id in codecs.ids] == ["", "", "rans-coarse"]
    assert codecs.quantiser("rans") is None
    late = bundle.codecs("late")
    assert [late.table(codec_id) for codec_id in ("raw", "q8", "q4+zstd")] == ["", "q8", "q4"]
    table = late.quantiser("q8+zstd")
    assert table is not None
    assert table.channels == 12


def test_what_is_not_allowed_says_what_is(codecs: TensorCodecs) -> None:
    with pytest.raises(CodecNotAllowedError, match="'q8' at cut 'code', allowed there: raw, rans"):
        codecs.new("q8")
    with pytest.raises(CodecNotAllowedError, match="at cut 'input', allowed there: jpeg, webp"):
        PictureCodecs().new("rans")


def test_pictures_have_codecs_of_their_own() -> None:
    codecs = PictureCodecs(quality=50)
    assert [codecs.new(codec_id).id for codec_id in codecs.ids] == ["jpeg", "webp"]
    assert codecs.table("jpeg") == ""


def test_the_coding_model_of_a_coder(bundle: Bundle) -> None:
    model = bundle.coding_model("code", "rans")
    assert model.context.channels == 6
    assert model.alphabet.count == 32
    with pytest.raises(CodecNotAllowedError, match="no coder 'q8', only rans, rans-coarse"):
        bundle.coding_model("code", "q8")
    with pytest.raises(CodecNotAllowedError, match="only none"):
        bundle.coding_model("late", "rans")
    with pytest.raises(UnknownCutError):
        bundle.coding_model("nowhere", "rans")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a coding model"),
        (b"HTRC" + bytes(40), "damaged"),
        (b"x" * 100, "not a coding model"),
        (bytes(MAX_CODER_BYTES + 1), "more than"),
    ],
)
def test_a_file_that_is_no_coding_model(
    bundle: Bundle, tmp_path: Path, data: bytes, told: str
) -> None:
    (tmp_path / "code.rans").write_bytes(data)
    with pytest.raises(BadCoderError, match=told) as caught:
        read_coding_model(tmp_path, bundle.cut("code"), "rans")
    assert "code.rans" in caught.value.message


def _changed(cut: Cut, **coders: Coder) -> Cut:
    return replace(cut, coders=cut.coders | coders)


@pytest.mark.parametrize(
    ("coder", "told"),
    [
        (Coder(file="code.rans", bits=4), "the quantiser has 6 channels and"),
        (Coder(file="weights.bin", steps=(1.0,)), "'weights.bin': not a coding model"),
    ],
)
def test_a_coder_that_does_not_fit_is_not_written(tmp_path: Path, coder: Coder, told: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    manifest = write_stages(source, gated=True)
    cut = manifest.cuts[2]
    tables = cut.quantisers | {"rans": cut.quantisers["rans-coarse"]}
    odd = replace(_changed(cut, rans=coder), quantisers=tables)
    with pytest.raises(BadCoderError, match=told):
        write_bundle(source, replace(manifest, cuts=(*manifest.cuts[:2], odd)), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_model_for_other_channels_is_refused(tmp_path: Path, bundle: Bundle) -> None:
    cut = bundle.cut("code")
    wider = replace(cut.tensor, shape=(7, 8, 8))
    table = replace(cut.quantisers["rans-coarse"], low=(0.0,) * 7, high=(1.0,) * 7)
    odd = replace(
        cut,
        head=replace(cut.head, outputs=(wider,)),
        quantisers={"rans-coarse": table},
    )
    models = {name: bundle.coding_model("code", name) for name in cut.coders}
    with pytest.raises(BadCoderError, match="the quantiser has 7 channels"):
        TensorCodecs(odd, models)


def test_a_bundle_without_its_coder_does_not_open(bundle: Bundle, tmp_path: Path) -> None:
    folder = write_specimen(tmp_path / "gated", gated=True)
    (folder / "code.rans").unlink()
    with pytest.raises(MissingFileError, match=r"code\.rans"):
        open_bundle(folder)


@pytest.mark.parametrize("codec_id", ["rans", "rans-coarse"])
@given(payload=st.binary(max_size=400))
def test_no_payload_gives_anything_but_a_tensor_or_an_error(
    codecs: TensorCodecs, codec_id: str, payload: bytes
) -> None:
    with contextlib.suppress(CodecError):
        assert codecs.new(codec_id).decode(payload, SHAPE).shape == SHAPE


@given(at=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_damaged_payload_is_refused(codecs: TensorCodecs, at: int, value: int) -> None:
    codec = codecs.new("rans")
    payload = bytearray(codec.encode(tensor()))
    at %= len(payload)
    if payload[at] == value:
        return
    payload[at] = value
    with pytest.raises(CodecError):
        codec.decode(bytes(payload), SHAPE)


def test_a_payload_beyond_the_cap_is_refused_before_it_is_read(codecs: TensorCodecs) -> None:
    with pytest.raises(CodecError, match="payload of 1000000 bytes"):
        codecs.new("rans").decode(bytes(1_000_000), SHAPE)
