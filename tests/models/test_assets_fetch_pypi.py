"""Finding and loading a file on package indexes that exist only in memory."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from requests.adapters import BaseAdapter, HTTPAdapter

from headtail_models.assets.catalogue import Asset, Member
from headtail_models.assets.errors import NotPublishedError, UnreachableError, WrongContentError
from headtail_models.assets.pip_settings import IndexSettings
from headtail_models.assets.progress import Silence
from headtail_models.assets.pypi import PyPI, _Adapter

CONTENT = bytes(range(256)) * 1000
ONE = "https://one.example/simple"
TWO = "https://two.example/simple"
FILE = "https://files.example/thing-1.0.whl"
PAGE = f'<html><body><a href="{FILE}">thing-1.0.whl</a><a href="x">thing-2.0.whl</a></body></html>'

Answer = Callable[[requests.PreparedRequest], requests.Response]


def _asset() -> Asset:
    member = Member(path="data.bin", size_bytes=1, sha256="0" * 64)
    return Asset(
        name="thing",
        purpose="tests",
        kind="pypi",
        package="Thing",
        version="1.0",
        filename="thing-1.0.whl",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="MIT",
        members=(member,),
    )


def _response(
    content: bytes = b"", status: int = 200, kind: str = "application/zip", **headers: str
) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.raw = io.BytesIO(content)
    response.headers.update({"Content-Type": kind} | headers)
    return response


def _page(text: str = PAGE) -> requests.Response:
    return _response(text.encode(), kind="text/html")


def _absent(request: requests.PreparedRequest) -> requests.Response:
    return _response(status=404)


class _Web(BaseAdapter):
    """Answers by URL; remembers what was asked."""

    def __init__(self, pages: dict[str, Answer]) -> None:
        self.pages = pages
        self.requests: list[requests.PreparedRequest] = []

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: object = None,
        verify: object = True,
        cert: object = None,
        proxies: object = None,
    ) -> requests.Response:
        self.requests.append(request)
        response = self.pages.get(request.url or "", _absent)(request)
        response.request, response.url = request, request.url or ""
        return response

    def close(self) -> None:
        pass


def _serve(request: requests.PreparedRequest) -> requests.Response:
    """The file, or the rest of it."""
    wanted = request.headers.get("Range")
    if wanted is None:
        return _response(CONTENT)
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    return _response(
        CONTENT[start:],
        206,
        **{"Content-Range": f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"},
    )


def _download(
    web: _Web, part: Path, *, index: str | None = ONE, extra: tuple[str, ...] = ()
) -> None:
    settings = IndexSettings(index=index, extra_indexes=extra)
    PyPI(settings, adapter=lambda settings: web).download(_asset(), part, progress=Silence())


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "thing.part"


def test_the_file_of_that_name_is_loaded(part: Path) -> None:
    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: _serve})
    _download(web, part)
    assert part.read_bytes() == CONTENT
    assert [request.url for request in web.requests] == [f"{ONE}/thing/", FILE]
    assert web.requests[1].headers["Accept-Encoding"] == "identity"
    assert "Range" not in web.requests[1].headers


def test_what_was_loaded_before_is_not_loaded_again(part: Path) -> None:
    part.write_bytes(CONTENT[:70_000])
    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: _serve})
    _download(web, part)
    assert part.read_bytes() == CONTENT
    assert web.requests[1].headers["Range"] == "bytes=70000-"


def test_a_server_that_knows_no_ranges_begins_anew(part: Path) -> None:
    part.write_bytes(b"x" * 70_000)
    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: lambda request: _response(CONTENT)})
    _download(web, part)
    assert part.read_bytes() == CONTENT


def test_a_connection_that_breaks_is_taken_up_again(part: Path) -> None:
    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 100_000:
                raise requests.ConnectionError("reset")
            return super().read(size)

    def flaky(request: requests.PreparedRequest) -> requests.Response:
        response = _serve(request)
        response.raw = Breaking(response.raw.read())
        return response

    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: flaky})
    _download(web, part)
    assert part.read_bytes() == CONTENT
    assert [request.headers.get("Range") for request in web.requests[1:]] == [
        None,
        "bytes=131072-",
    ]


def test_a_connection_that_always_breaks(part: Path) -> None:
    def broken(request: requests.PreparedRequest) -> requests.Response:
        raise requests.ConnectionError("no route")

    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: broken})
    with pytest.raises(UnreachableError, match="no route") as caught:
        _download(web, part)
    assert "what was loaded so far is kept" in caught.value.advice


def test_a_file_that_ends_early(part: Path) -> None:
    web = _Web(
        {f"{ONE}/thing/": lambda request: _page(), FILE: lambda request: _response(CONTENT[:9])}
    )
    with pytest.raises(UnreachableError, match="ended after 9"):
        _download(web, part)


def test_a_file_that_does_not_end(part: Path) -> None:
    def endless(request: requests.PreparedRequest) -> requests.Response:
        return _response(CONTENT + bytes(10_000_000))

    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: endless})
    with pytest.raises(WrongContentError, match="longer"):
        _download(web, part)
    assert not part.exists()


def test_a_file_that_is_shorter_than_what_is_there(part: Path) -> None:
    part.write_bytes(CONTENT[:1000])
    web = _Web(
        {f"{ONE}/thing/": lambda request: _page(), FILE: lambda request: _response(status=416)}
    )
    with pytest.raises(WrongContentError, match="shorter"):
        _download(web, part)
    assert not part.exists()


def test_the_next_index_is_asked(part: Path) -> None:
    web = _Web(
        {
            f"{ONE}/thing/": lambda request: _page("<html></html>"),
            f"{TWO}/thing/": lambda request: _page(),
            FILE: _serve,
        }
    )
    _download(web, part, extra=("https://none.example/simple", TWO))
    assert part.read_bytes() == CONTENT


def test_no_index_has_it(part: Path) -> None:
    with pytest.raises(NotPublishedError, match=r"thing-1\.0\.whl"):
        _download(_Web({}), part, extra=(TWO,))


def test_an_index_that_fails_is_told_of_when_no_other_has_it(part: Path) -> None:
    web = _Web({f"{ONE}/thing/": lambda request: _response(status=403)})
    with pytest.raises(UnreachableError, match="403"):
        _download(web, part, extra=(TWO,))


def test_a_page_that_is_no_index(part: Path) -> None:
    web = _Web({f"{ONE}/thing/": lambda request: _response(b"{", kind="application/json")})
    with pytest.raises(UnreachableError, match="does not answer like a package index"):
        _download(web, part)


def test_a_file_that_is_forbidden(part: Path) -> None:
    web = _Web(
        {f"{ONE}/thing/": lambda request: _page(), FILE: lambda request: _response(status=403)}
    )
    with pytest.raises(UnreachableError, match="403"):
        _download(web, part)
    assert len(web.requests) == 2


def test_the_default_index_is_the_library_s_own(part: Path) -> None:
    web = _Web({})
    with pytest.raises(NotPublishedError):
        _download(web, part, index=None)
    assert len(web.requests) == 1


def test_credentials_go_to_their_index_alone(part: Path) -> None:
    web = _Web({f"{ONE}/thing/": lambda request: _page(), FILE: _serve})
    _download(web, part, index="https://me:s%20cret@one.example/simple")
    page, file = web.requests
    assert page.url == f"{ONE}/thing/"
    assert page.headers["Authorization"] == "Basic bWU6cyBjcmV0"
    assert "Authorization" not in file.headers


def test_credentials_do_not_appear_in_errors(part: Path) -> None:
    web = _Web({f"{ONE}/thing/": lambda request: _response(status=500)})
    with pytest.raises(UnreachableError) as caught:
        _download(web, part, index="https://me:secret@one.example/simple")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "verify", "proxies"),
    [
        (IndexSettings(), True, None),
        (IndexSettings(certificate="/pem"), "/pem", None),
        (IndexSettings(certificate="/pem", trusted_hosts=frozenset({"a.example"})), False, None),
        (IndexSettings(trusted_hosts=frozenset({"a.example:8443"})), False, None),
        (IndexSettings(trusted_hosts=frozenset({"b.example"})), True, None),
        (
            IndexSettings(proxy="http://proxy.example"),
            True,
            {"http": "http://proxy.example", "https": "http://proxy.example"},
        ),
    ],
)
def test_pip_s_trust_is_ours(
    settings: IndexSettings,
    verify: bool | str,
    proxies: dict[str, str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[object, ...]] = []

    def send(self: HTTPAdapter, request: object, *rest: object) -> requests.Response:
        sent.append(rest)
        return _response()

    monkeypatch.setattr(HTTPAdapter, "send", send)
    request = requests.Request("GET", "https://a.example:8443/simple/").prepare()
    _Adapter(settings).send(request)
    assert sent == [(False, None, verify, None, proxies)]


def test_a_certificate_that_is_not_there() -> None:
    request = requests.Request("GET", "https://a.example/").prepare()
    with pytest.raises(requests.exceptions.SSLError):
        _Adapter(IndexSettings(certificate="/none.pem")).send(request)
