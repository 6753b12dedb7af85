import pytest

from headtail_cloud.gateway.failure import FailureError
from headtail_cloud.gateway.limits import Turnstile
from headtail_cloud.tenants import Caller


def caller(tenant: str, concurrency: int = 2) -> Caller:
    return Caller(tenant=tenant, priority=0, concurrency=concurrency)


def test_each_tenant_has_its_own_limit() -> None:
    gate = Turnstile(10)
    with gate.enter(caller("a")), gate.enter(caller("a")):
        with pytest.raises(FailureError) as caught, gate.enter(caller("a")):
            pass
        assert (caught.value.failure.status, caught.value.failure.code) == (429, "concurrency")
        with gate.enter(caller("b")):
            assert repr(gate) == "<Turnstile 3/10>"
    assert repr(gate) == "<Turnstile 0/10>"


def test_all_together_have_one() -> None:
    gate = Turnstile(1)
    with gate.enter(caller("a")):
        with pytest.raises(FailureError) as caught, gate.enter(caller("b")):
            pass
        assert caught.value.failure.code == "overloaded"


def test_one_that_failed_leaves_its_place() -> None:
    gate = Turnstile(1)
    with pytest.raises(RuntimeError), gate.enter(caller("a")):
        raise RuntimeError
    with gate.enter(caller("a")):
        pass
