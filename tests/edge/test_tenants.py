"""Which flow a device belongs to."""

import pytest

from headtail_edge.rate_limit import Rate
from headtail_edge.tenants import LimitsConfig, TenantConfig, Tenants, TenantsError


def test_a_device_of_no_tenant_is_a_flow_of_its_own() -> None:
    tenants = Tenants({}, LimitsConfig(rate_per_s=30.0, burst_s=2.0), queue_limit=100)
    flow = tenants.flow("cam-1", b"s")
    assert (flow.name, flow.weight, flow.quota) == ("device cam-1", 1.0, 50)
    assert flow.rate == Rate(per_s=30.0, burst=60)
    assert tenants.flow("cam-2", b"s").name != flow.name


def test_without_names_sessions_are_flows() -> None:
    tenants = Tenants(
        {"all": TenantConfig(members=("*",))}, LimitsConfig(max_waiting=7), queue_limit=100
    )
    assert tenants.flow("", b"\1").name == "device 01"
    assert tenants.flow("", b"\1").quota == 7


def test_members_share_a_flow_with_the_tenants_settings() -> None:
    lab = TenantConfig(members=("cam-*", "mic"), weight=3.0, max_waiting=9, rate_per_s=0.2)
    tenants = Tenants({"lab": lab}, LimitsConfig(), queue_limit=100)
    flow = tenants.flow("cam-7", b"a")
    assert flow is tenants.flow("mic", b"b")
    assert (flow.name, flow.weight, flow.quota) == ("tenant lab", 3.0, 9)
    assert flow.rate == Rate(per_s=0.2, burst=1)
    assert tenants.flow("door", b"c").name == "device door"


def test_a_whole_name_goes_before_a_pattern() -> None:
    tenants = Tenants(
        {"most": TenantConfig(members=("cam-*",)), "one": TenantConfig(members=("cam-1",))},
        LimitsConfig(),
        queue_limit=100,
    )
    assert tenants.flow("cam-1", b"a").name == "tenant one"
    assert tenants.flow("cam-2", b"a").name == "tenant most"


def test_nobody_belongs_to_two_tenants() -> None:
    table = {"a": TenantConfig(members=("x",)), "b": TenantConfig(members=("x",))}
    with pytest.raises(TenantsError, match="'x' is a member of two tenants"):
        Tenants(table, LimitsConfig(), queue_limit=100)
