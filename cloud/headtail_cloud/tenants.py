"""Who may ask for work, and how much: API keys and their tenants.

A tenant's key is shown once, when it is made; its hash is what is kept.

    [tenants.cameras]
    key_sha256 = "..."
    share = 2.0
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_fabric import config
from headtail_fabric.errors import ConfigError, PeerError

ANYBODY: Final = "anybody"
"""The tenant of every request where no keys are asked for."""

_PREFIX: Final = "ht-"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SECRET_BYTES: Final = 32
_MAX_KEY_CHARS: Final = 200


class UnknownKeyError(PeerError):
    """The request has no API key, or one that nobody here has. Send `Authorization: Bearer KEY`
    with a key that `headtail cloud key` has made, and that stands in the tenants' file."""


class BadNameError(ConfigError):
    """A tenant's name has 1 to 64 letters, digits, dots, dashes and underscores. Choose another
    one."""


class SharedKeyError(ConfigError):
    """Two tenants have the same key. Make one of them a new one: `headtail cloud key NAME`."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's table."""

    key_sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="Hash of its key.")]
    share: Annotated[
        float, Meta(gt=0, le=1000, description="Of the engine, against others' shares.")
    ] = 1.0
    priority: Annotated[int, Meta(ge=-100, le=100, description="Higher ones go first.")] = 0
    concurrency: Annotated[
        int, Meta(ge=1, le=65_536, description="Requests that it may have in progress.")
    ] = 64


class TenantsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of all tenants."""

    tenants: dict[Annotated[str, Meta(pattern=rf"^{_NAME.pattern}\Z")], Tenant] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request."""

    tenant: str
    priority: int
    concurrency: int


class Tenants:
    """Finds the caller of a key."""

    def __init__(self, tenants: dict[str, Tenant] | None, *, concurrency: int) -> None:
        """None asks for no keys: then everybody is `ANYBODY`, with that `concurrency`. Raises
        SharedKeyError."""
        self._anybody = None
        self.shares: dict[str, float] = {}
        self._callers: dict[bytes, Caller] = {}
        if tenants is None:
            self._anybody = Caller(tenant=ANYBODY, priority=0, concurrency=concurrency)
            return
        for name, tenant in tenants.items():
            digest = bytes.fromhex(tenant.key_sha256)
            if digest in self._callers:
                other = self._callers[digest].tenant
                raise SharedKeyError(f"{other!r} and {name!r} have the same key")
            self.shares[name] = tenant.share
            self._callers[digest] = Caller(
                tenant=name, priority=tenant.priority, concurrency=tenant.concurrency
            )

    def __repr__(self) -> str:
        return f"<Tenants {', '.join(self.shares) or 'anybody'}>"

    @property
    def asks_for_keys(self) -> bool:
        return self._anybody is None

    def caller(self, authorization: str | None) -> Caller:
        """Of the HTTP header of that name. Raises UnknownKeyError.

        Keys are found by their hash, so the time it takes says nothing about a key.
        """
        if self._anybody is not None:
            return self._anybody
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key or len(key) > _MAX_KEY_CHARS:
            raise UnknownKeyError("no API key")
        caller = self._callers.get(hashlib.sha256(key.encode()).digest())
        if caller is None:
            raise UnknownKeyError("unknown API key")
        return caller


def load_tenants(path: Path | None, *, concurrency: int) -> Tenants:
    """Those in the file, or anybody. Raises what `config.load` does, SharedKeyError."""
    if path is None:
        return Tenants(None, concurrency=concurrency)
    return Tenants(config.load(TenantsFile, path).tenants, concurrency=concurrency)


def new_tenant(name: str) -> str:
    """A tenant's table for the file, with a new key in a comment. Raises BadNameError."""
    if not _NAME.fullmatch(name):
        raise BadNameError(f"{name[:80]!r} can't be a tenant's name")
    key = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f'# key: {key}\n[tenants."{name}"]\nkey_sha256 = "{digest}"\n\n'
