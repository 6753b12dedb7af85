"""What is asked of a request before any work is done for it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from edge_doubles import crossing, encoded
from headtail_edge.plan import TailPlan, plans_of
from headtail_edge.request_check import RequestRefusedError, check
from headtail_fabric.wire import DType, ErrorCode, TensorInfo
from headtail_models.bundle import Bundle

MAX_PIXELS = 10_000


def plan_at(bundle: Bundle, cut: str) -> TailPlan:
    return next(plan for plan in plans_of(bundle, threads=1) if plan.key.cut == cut)


def refused(plan: TailPlan, *tensors: TensorInfo) -> str:
    with pytest.raises(RequestRefusedError) as caught:
        check(plan, tensors, max_pixels=MAX_PIXELS)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    return caught.value.message


@pytest.mark.parametrize("cut", ["early", "late"])
def test_what_a_device_sends_is_accepted_in_every_codec(specimen: Bundle, cut: str) -> None:
    plan = plan_at(specimen, cut)
    for codec in specimen.cut(cut).codecs:
        tensor, _ = encoded(specimen, cut, crossing(specimen, cut), codec)
        assert check(plan, (tensor,), max_pixels=MAX_PIXELS) is tensor


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda t: replace(t, name="early"), "tensor 'early' at cut 'late', not 'late'"),
        (lambda t: replace(t, dtype=DType.FLOAT16), "FLOAT16, not FLOAT32"),
        (lambda t: replace(t, codec="jpeg"), "codec 'jpeg' at cut 'late', allowed: raw, "),
        (lambda t: replace(t, codec="q8+nothing"), "codec 'q8+nothing'"),
        (lambda t: replace(t, quantiser="q4"), "quantiser 'q4' for q8, not 'q8'"),
        (lambda t: replace(t, quantiser=""), "quantiser '' for q8, not 'q8'"),
        (lambda t: replace(t, shape=(2, *t.shape[1:])), "of shape (2, 12, 8, 8)"),
        (lambda t: replace(t, shape=t.shape[1:]), "not (1, 12, 8, 8)"),
        (lambda t: replace(t, shape=()), "of shape ()"),
    ],
)
def test_anything_else_is_refused(
    specimen: Bundle, wrong: Callable[[TensorInfo], TensorInfo], told: str
) -> None:
    tensor, _ = encoded(specimen, "late", crossing(specimen, "late"), "q8")
    assert told in refused(plan_at(specimen, "late"), wrong(tensor))


def test_a_table_is_named_only_where_there_is_one(specimen: Bundle) -> None:
    tensor, _ = encoded(specimen, "late", crossing(specimen, "late"), "raw")
    message = refused(plan_at(specimen, "late"), replace(tensor, quantiser="q8"))
    assert message == "quantiser 'q8' for raw, not ''"


def test_exactly_one_tensor_crosses(specimen: Bundle) -> None:
    plan = plan_at(specimen, "late")
    tensor, _ = encoded(specimen, "late", crossing(specimen, "late"), "raw")
    assert refused(plan) == "0 tensors at cut 'late', exactly one crosses there"
    assert refused(plan, tensor, tensor).startswith("2 tensors")


def picture(*shape: int, codec: str = "jpeg") -> TensorInfo:
    return TensorInfo(name="input", dtype=DType.UINT8, shape=shape, codec=codec)


def test_pictures_of_any_size_are_accepted_up_to_the_limit(specimen: Bundle) -> None:
    plan = plan_at(specimen, "input")
    for codec in ("jpeg", "webp"):
        check(plan, (picture(1, 100, 100, 3, codec=codec),), max_pixels=MAX_PIXELS)
    assert "101x100 pixels" in refused(plan, picture(1, 100, 101, 3))


@pytest.mark.parametrize("shape", [(1, 10, 10, 4), (2, 10, 10, 3), (10, 10, 3), (1, 0, 10, 3), ()])
def test_what_is_no_picture_is_refused(specimen: Bundle, shape: tuple[int, ...]) -> None:
    assert "not (1, H, W, 3)" in refused(plan_at(specimen, "input"), picture(*shape))


def test_a_picture_comes_as_a_file_of_its_own_type(specimen: Bundle) -> None:
    plan = plan_at(specimen, "input")
    assert "allowed: jpeg, webp" in refused(plan, picture(1, 10, 10, 3, codec="raw"))
    assert "FLOAT32, not UINT8" in refused(
        plan, replace(picture(1, 10, 10, 3), dtype=DType.FLOAT32)
    )


def test_an_entropy_coded_tensor_has_the_shape_of_its_cut(gated: Bundle) -> None:
    plan = plan_at(gated, "code")
    tensor, _ = encoded(gated, "code", crossing(gated, "code"), "rans")
    assert check(plan, (tensor,), max_pixels=MAX_PIXELS) is tensor
    wrong = replace(tensor, shape=(1, 6, 8, 8000))
    assert "not (1, 6, 8, 8)" in refused(plan, wrong)


def test_a_coder_names_its_table_if_it_has_one(gated: Bundle) -> None:
    plan = plan_at(gated, "code")
    stepped, _ = encoded(gated, "code", crossing(gated, "code"), "rans")
    tabled, _ = encoded(gated, "code", crossing(gated, "code"), "rans-coarse")
    assert (stepped.quantiser, tabled.quantiser) == ("", "rans-coarse")
    check(plan, (tabled,), max_pixels=MAX_PIXELS)
    assert "not 'rans-coarse'" in refused(plan, replace(tabled, quantiser=""))
    assert "not ''" in refused(plan, replace(stepped, quantiser="rans"))
