"""Which package indexes the user has told pip to use, read as pip documents it.

Precedence (pip user guide, "Configuration"): environment variables, then the section of the
command (`download` here), then `[global]`; among files, the one that PIP_CONFIG_FILE names wins
over the virtual environment's, that over the user's, that over the machine's.
"""

import configparser
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headtail_models.assets.errors import IndexSettingsError

log = logging.getLogger(__name__)

_SECTIONS = ("global", "download")
_WEB = ("http", "https")
_TRUE = ("y", "yes", "t", "true", "on", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Where to look for packages and how to trust the servers.

    `index` None stands for the index that packages are published on by default. URLs may hold
    credentials, so they are kept out of the representation.
    """

    index: str | None = None
    extra_indexes: tuple[str, ...] = ()
    certificate: str | None = None
    client_certificate: str | None = None
    proxy: str | None = None
    trusted_hosts: frozenset[str] = frozenset()
    timeout_s: float = 15.0

    def __repr__(self) -> str:
        urls = [redacted(url) for url in (self.index or "default", *self.extra_indexes)]
        return f"<IndexSettings {' '.join(urls)}>"


def redacted(url: str) -> str:
    """The URL without the user name and password that it may hold."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def read_index_settings(
    environ: Mapping[str, str] | None = None, files: Sequence[Path] | None = None
) -> IndexSettings:
    """The settings in force; `environ` and `files` are given by tests.

    Indexes on the local disk (`file:`) are left out: pip reads them itself, the library that reads
    indexes here does not. Raises IndexSettingsError.
    """
    environ = os.environ if environ is None else environ
    options = _merged(environ, config_files(environ) if files is None else files)
    if options.get("no-index", "").lower() in _TRUE:
        raise IndexSettingsError("pip is told to use no index (no-index)")
    return IndexSettings(
        index=_index(options),
        extra_indexes=_extra_indexes(options),
        certificate=options.get("cert"),
        client_certificate=options.get("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=frozenset(options.get("trusted-host", "").split()),
        timeout_s=_timeout(options.get("timeout") or options.get("default-timeout")),
    )


def config_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """pip's configuration files on this machine, those that override others last."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    home = Path(environ.get("HOME") or Path.home())
    machine = [
        Path(folder) / "pip" / "pip.conf"
        for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    ]
    user = [
        home / ".pip" / "pip.conf",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
    ]
    site = Path(sys.prefix) / "pip.conf"
    if named and Path(named).exists():
        return (*machine, Path("/etc/pip.conf"), site, Path(named))
    return (*machine, Path("/etc/pip.conf"), *user, site)


def _merged(environ: Mapping[str, str], files: Sequence[Path]) -> dict[str, str]:
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for path in files:
        for section, option, value in _options(path):
            sections[section][option] = value
    merged = sections["global"] | sections["download"]
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            merged[name[4:].lower().replace("_", "-")] = value
    return merged


def _options(path: Path) -> Iterator[tuple[str, str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError, configparser.Error) as error:
        raise IndexSettingsError(f"pip's settings in {path} can't be read: {error}") from None
    for section in _SECTIONS:
        if parser.has_section(section):
            for option, value in parser.items(section):
                if value:
                    yield section, option.lower().replace("_", "-"), value


def _index(options: Mapping[str, str]) -> str | None:
    url = options.get("index-url", "").strip()
    if url and urlsplit(url).scheme not in _WEB:
        raise IndexSettingsError(f"pip's index-url is not on a web server: {redacted(url)}")
    return url or None


def _extra_indexes(options: Mapping[str, str]) -> tuple[str, ...]:
    urls = options.get("extra-index-url", "").split()
    for url in urls:
        if urlsplit(url).scheme not in _WEB:
            log.debug("extra index %s is not on a web server: left out", redacted(url))
    return tuple(url for url in urls if urlsplit(url).scheme in _WEB)


def _timeout(value: str | None) -> float:
    try:
        return max(1.0, float(value or 15))
    except ValueError:
        raise IndexSettingsError(f"pip's timeout is not a number: {value!r}") from None
