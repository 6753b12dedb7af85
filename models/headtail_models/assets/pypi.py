"""Archives from Python package indexes. Needs the extra `build`."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headtail_fabric.errors import ConfigError
from headtail_models.assets.catalogue import Asset
from headtail_models.assets.errors import (
    NotPublishedError,
    UnreachableError,
    WrongContentError,
)
from headtail_models.assets.pip_settings import IndexSettings, redacted
from headtail_models.assets.progress import ProgressSink

try:
    import requests
    from pypi_simple import (
        PYPI_SIMPLE_ENDPOINT,
        NoSuchProjectError,
        PyPISimple,
        UnsupportedContentTypeError,
        UnsupportedRepoVersionError,
    )
    from requests.adapters import BaseAdapter, HTTPAdapter
    from requests.auth import AuthBase, HTTPBasicAuth
    from urllib3.util import Retry
except ImportError as missing:
    raise ConfigError(
        f"fetching assets needs {missing.name}: pip install 'headtail[build]'"
    ) from None

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 4
_CHUNK_BYTES: Final = 64 * 1024
_RETRIES: Final = Retry(total=3, backoff_factor=0.5, status_forcelist=(429, 502, 503, 504))


class PyPI:
    """The indexes of `settings`, asked one after the other until one has the file."""

    def __init__(
        self,
        settings: IndexSettings,
        *,
        adapter: Callable[[IndexSettings], BaseAdapter] | None = None,
    ) -> None:
        self._settings = settings
        self._adapter = adapter or _Adapter

    def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
        settings, failure = self._settings, None
        for index in (settings.index or PYPI_SIMPLE_ENDPOINT, *settings.extra_indexes):
            try:
                with self._session(index) as session:
                    url = self._find(session, index, asset)
                    if url is not None:
                        self._load(session, url, asset, part, progress)
                        return
            except UnreachableError as error:
                log.debug("%s", error)
                failure = failure or error
        raise failure or NotPublishedError(f"no package index has {asset.filename}")

    def _session(self, index: str) -> requests.Session:
        session = requests.Session()
        adapter = self._adapter(self._settings)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        # A server must not compress the archive once more: ranges count its own bytes.
        session.headers["Accept-Encoding"] = "identity"
        parts = urlsplit(index)
        if parts.username is not None:
            session.auth = _IndexAuth(
                parts.hostname, unquote(parts.username), unquote(parts.password or "")
            )
        return session

    def _find(self, session: requests.Session, index: str, asset: Asset) -> str | None:
        """Where `index` keeps the asset's file, or None when it has none of that name."""
        client = PyPISimple(redacted(index), session=session)
        try:
            page = client.get_project_page(asset.package, timeout=self._settings.timeout_s)
        except NoSuchProjectError:
            return None
        except (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
            raise UnreachableError(
                f"{redacted(index)} does not answer like a package index: {error}"
            ) from None
        except requests.RequestException as error:
            raise _unreachable(redacted(index), error) from None
        found = (package.url for package in page.packages if package.filename == asset.filename)
        return next(found, None)

    def _load(
        self,
        session: requests.Session,
        url: str,
        asset: Asset,
        part: Path,
        progress: ProgressSink,
    ) -> None:
        failure: requests.RequestException | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._load_rest(session, url, asset, part, progress)
            except requests.HTTPError as error:
                raise _unreachable(asset.filename, error) from None
            except requests.RequestException as error:
                log.debug("%s broke off: %s", asset.filename, error)
                failure = error
            else:
                return
        assert failure is not None
        raise _unreachable(asset.filename, failure) from None

    def _load_rest(
        self,
        session: requests.Session,
        url: str,
        asset: Asset,
        part: Path,
        progress: ProgressSink,
    ) -> None:
        done = part.stat().st_size if part.exists() else 0
        if done == asset.size_bytes:
            return
        headers = {"Range": f"bytes={done}-"} if done else {}
        with session.get(
            url, stream=True, timeout=self._settings.timeout_s, headers=headers
        ) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                part.unlink(missing_ok=True)
                raise WrongContentError(f"{asset.filename} is shorter than {asset.size_bytes}")
            response.raise_for_status()
            resumes = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
            done = done if response.status_code == requests.codes.partial and resumes else 0
            progress.begin(asset.filename, total_bytes=asset.size_bytes, done_bytes=done)
            with part.open("ab" if done else "wb") as file:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    done += len(chunk)
                    if done > asset.size_bytes:
                        break
                    file.write(chunk)
                    progress.advance(len(chunk))
        if done > asset.size_bytes:
            part.unlink(missing_ok=True)
            raise WrongContentError(f"{asset.filename} is longer than {asset.size_bytes} bytes")
        if done < asset.size_bytes:
            raise requests.ConnectionError(f"ended after {done} of {asset.size_bytes} bytes")


class _Adapter(HTTPAdapter):
    """Sends requests the way pip would: its certificates, trusted hosts and proxy win over the
    environment variables that `requests` reads by itself."""

    def __init__(self, settings: IndexSettings) -> None:
        super().__init__(max_retries=_RETRIES)
        self._settings = settings

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        settings = self._settings
        parts = urlsplit(request.url or "")
        host = parts.hostname or ""
        if host in settings.trusted_hosts or f"{host}:{parts.port}" in settings.trusted_hosts:
            verify = False
        elif settings.certificate:
            verify = settings.certificate
        if settings.proxy:
            proxies = {"http": settings.proxy, "https": settings.proxy}
        client = settings.client_certificate or cert
        try:
            return super().send(request, stream, timeout, verify, client, proxies)
        except OSError as error:
            if isinstance(error, requests.RequestException):
                raise
            # A certificate file that does not exist.
            raise requests.exceptions.SSLError(str(error)) from None


class _IndexAuth(AuthBase):
    """The credentials of an index's URL, for that host alone."""

    def __init__(self, host: str | None, user: str, password: str) -> None:
        self._host = host
        self._basic = HTTPBasicAuth(user, password)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if urlsplit(request.url or "").hostname == self._host:
            signed: requests.PreparedRequest = self._basic(request)
            return signed
        return request


def _unreachable(what: str, error: requests.RequestException) -> UnreachableError:
    return UnreachableError(f"{what}: {type(error).__name__}: {str(error)[:300]}")
