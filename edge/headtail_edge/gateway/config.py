"""What an operator can set of a gateway."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Host = Annotated[str, Meta(min_length=1, max_length=200)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class ZmtpConfig(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="zmtp"):
    """Nodes that speak ZeroMQ."""

    bind: Annotated[str, Meta(max_length=200, description="Such as tcp://0.0.0.0:7001.")]
    security: Annotated[
        Literal["curve", "plain", "none"],
        Meta(
            description="`curve` needs `key`. `plain` shows passwords to the network, `none` asks "
            "for nothing: both listen on this machine only, unless `exposed`."
        ),
    ] = "curve"
    exposed: Annotated[
        bool, Meta(description="Something else protects the network of a plain link.")
    ] = False


class UdpConfig(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="udp"):
    """Sealed packets of nodes that sleep."""

    host: Annotated[Host, Meta(description="Address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[Port, Meta(description="UDP port; 0 takes a free one.")] = 7002


class TcpConfig(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tcp"):
    """Sealed packets over TCP, or over TLS with a certificate."""

    host: Annotated[Host, Meta(description="Address to listen on.")] = "0.0.0.0"  # noqa: S104
    port: Annotated[Port, Meta(description="TCP port; 0 takes a free one.")] = 7003
    tls_certificate: Annotated[
        Path | None, Meta(description="Certificate chain (PEM); needs `tls_key`.")
    ] = None
    tls_key: Annotated[Path | None, Meta(description="Its private key (PEM).")] = None
    max_connections: Annotated[
        int, Meta(ge=1, le=4096, description="Open at once; the oldest silent one makes room.")
    ] = 256


class SerialConfig(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="serial"):
    """One node on a serial line."""

    device: Annotated[str, Meta(max_length=200, description="Such as /dev/ttyACM0.")]
    baud: Annotated[int, Meta(ge=1200, le=4_000_000, description="Bits a second.")] = 115_200
    node: Annotated[
        str | None,
        Meta(description="Who is on this line; not set, its packets are sealed and tell."),
    ] = None


LinkConfig = ZmtpConfig | UdpConfig | TcpConfig | SerialConfig


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A head for microcontrollers, and the tail that belongs to it."""

    heads: Annotated[
        tuple[Path, ...],
        Meta(description="Heads (.head) that nodes may run; old ones too, until none has them."),
    ] = ()
    update: Annotated[
        Path | None, Meta(description="A signed head (.update) that these nodes are offered.")
    ] = None
    bundle: Annotated[
        str | None,
        Meta(description="The bundle whose tail takes the features; not set for whole networks."),
    ] = None
    cut: Annotated[str | None, Meta(description="Of the bundle; its default when not set.")] = None
    labels: Annotated[
        tuple[str, ...], Meta(description="Names of the classes where no bundle has them.")
    ] = ()


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The edge that computes the tails."""

    endpoint: Annotated[str, Meta(max_length=200, description="Where it is.")] = (
        "tcp://127.0.0.1:5557"
    )
    server_key: Annotated[
        str,
        Meta(
            description="The edge's public key (40 characters of Z85); needs `key`. Empty: no "
            "CURVE."
        ),
    ] = ""
    deadline_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="How long a tail may take before it is asked again."),
    ] = 10.0


class QuotaConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one node may use; what is above it is dropped, and the node sends it again."""

    messages_per_s: Annotated[float, Meta(gt=0, le=10_000, description="In the long run.")] = 50.0
    burst: Annotated[int, Meta(ge=1, le=10_000, description="At once.")] = 200
    in_flight: Annotated[
        int, Meta(ge=1, le=64, description="Records of features that wait for their answers.")
    ] = 8


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a gateway for microcontrollers (`headtail edge gateway --config FILE`)."""

    name: Annotated[
        str, Meta(min_length=1, max_length=64, description="What the edge sees it as.")
    ] = "gateway"
    key: Annotated[
        Path | None,
        Meta(description="Its key file (`headtail keys new`): towards nodes, and the edge."),
    ] = None
    nodes: Annotated[Path, Meta(description="Who may connect (`headtail node new`).")]
    state: Annotated[
        Path, Meta(description="Folder for what must survive a restart: which packets came.")
    ]
    records: Annotated[
        Path | None,
        Meta(
            description="File that gets every decision, answer and report as a line of JSON; "
            "standard output when not set."
        ),
    ] = None
    links: Annotated[tuple[LinkConfig, ...], Meta(description="Where nodes come in, see below.")]
    models: Annotated[
        dict[str, ModelConfig], Meta(description="Heads and tails, by a name of your own.")
    ] = {}
    edge: UpstreamConfig = UpstreamConfig()
    quota: QuotaConfig = QuotaConfig()
    silent_s: Annotated[
        float,
        Meta(gt=0, le=86_400, description="After so long without a word a session is forgotten."),
    ] = 3600.0
    metrics_port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(
            description="Where Prometheus finds measurements, on this machine; nowhere if not set."
        ),
    ] = None
