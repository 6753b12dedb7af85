"""What `assets.toml` names."""

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headtail_models.assets.errors import UnknownAssetError

Hex256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Meta(ge=1, lt=2**32)]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
NpmName = Annotated[str, Meta(pattern=r"^(@[a-z0-9._-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Member(_Part, frozen=True, kw_only=True):
    """One file inside an archive."""

    path: str
    size_bytes: Size
    sha256: Hex256

    @property
    def file(self) -> str:
        """The name it has in the cache."""
        return PurePosixPath(self.path).name


class Asset(_Part, frozen=True, kw_only=True):
    """One archive of a package registry and the members that are wanted of it."""

    name: Word
    purpose: str
    kind: Literal["pypi", "npm"]
    package: NpmName
    version: Word
    filename: Word
    size_bytes: Size
    sha256: Hex256
    licence: str
    members: Annotated[tuple[Member, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        names = [member.file for member in self.members]
        if len(set(names)) != len(names) or {"", ".."} & set(names):
            raise ValueError(f"asset {self.name}: its members can't be called {names}")


class _Catalogue(_Part, frozen=True, kw_only=True):
    asset: tuple[Asset, ...]


def parse(text: str) -> tuple[Asset, ...]:
    """The assets of a TOML text. Raises ValueError when it breaks the schema."""
    assets = msgspec.convert(tomllib.loads(text), _Catalogue).asset
    if len({asset.name for asset in assets}) != len(assets):
        raise ValueError("two assets have the same name")
    return assets


@cache
def catalogue() -> tuple[Asset, ...]:
    """The assets that Headtail was released with."""
    return parse(files(__package__).joinpath("assets.toml").read_text(encoding="utf-8"))


def find(name: str) -> Asset:
    """The asset of that name. Raises UnknownAssetError."""
    for asset in catalogue():
        if asset.name == name:
            return asset
    known = ", ".join(asset.name for asset in catalogue())
    raise UnknownAssetError(f"no asset is called {name!r}; there are: {known}", name=name)
