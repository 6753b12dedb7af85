import enum
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from headtail_fabric import config, config_example
from headtail_fabric.errors import ConfigError


class Codec(enum.StrEnum):
    RAW = "raw"
    Q8 = "q8"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the edge."""

    endpoint: Annotated[str, Meta(description="Where the edge listens.")] = "tcp://127.0.0.1:5555"
    retry_s: Annotated[float, Meta(gt=0, description="First pause before a retry.")] = 0.25
    window: Annotated[int, Meta(ge=1, le=1024)] = 16


class Folder(msgspec.Struct, frozen=True, kw_only=True, tag="folder", tag_field="kind"):
    path: Path
    loop: bool = False


class Camera(msgspec.Struct, frozen=True, kw_only=True, tag="camera", tag_field="kind"):
    device: int = 0


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    rate: Annotated[float, Meta(ge=0)] = 1.0


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device that exists for these tests."""

    name: str
    codec: Codec = Codec.Q8
    mode: Literal["split", "full"] = "split"
    threads: Literal["auto"] | Annotated[int, Meta(ge=1)] = "auto"
    link: Link = Link(window=8)
    spare: Link | None = None
    source: Folder | Camera = Camera()
    key: Path | None = None
    labels: tuple[str, ...] = ("person", "b]x")
    limits: dict[str, Limit] = {}
    stages: tuple[Limit, ...] = ()


def parsed(text: str, **flags: object) -> Device:
    dotted = {name.replace("__", "."): value for name, value in flags.items()}
    return config.parse(Device, text, source="device.toml", folder=Path("/etc/ht"), flags=dotted)


def test_the_file_and_then_the_flags_override_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text('name = "a"\n[link]\nretry_s = 1\nwindow = 2\n')
    flags = {"name": None, "link.window": 3, "spare.window": 4, "codec": Codec.RAW}
    assert config.load(Device, path, flags) == Device(
        name="a", codec=Codec.RAW, link=Link(retry_s=1.0, window=3), spare=Link(window=4)
    )


def test_no_file_leaves_defaults_and_flags() -> None:
    assert config.load(Device, None, {"name": "a"}) == Device(name="a")
    with pytest.raises(config.BadValueError, match="defaults: name: is required and not given"):
        config.load(Device, None)


def test_paths_are_relative_to_the_file_and_flags_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parsed('name = "a"\nkey = "a.key"').key == Path("/etc/ht/a.key")
    assert parsed('name = "a"\nkey = "/run/a.key"').key == Path("/run/a.key")
    assert parsed('name = "a"\nkey = "~/a.key"').key == Path("/home/someone/a.key")
    assert parsed('name = "a"', key=Path("a.key")).key == Path("a.key")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('nmae = "a"', "device.toml: nmae: unknown key, did you mean name?"),
        ("[link]\nretries = 1", "link.retries: unknown key, did you mean link.retry_s?"),
        ("retry_s = 1", "device.toml: retry_s: unknown key, did you mean link.retry_s?"),
        ("[link]\nzzz = 1", "link.zzz: unknown key, known here: endpoint, retry_s, window"),
        ("[spare]\nwindoe = 1", "spare.windoe: unknown key, did you mean spare.window?"),
        ('[limits."a.b"]\nrat = 1', '"a.b".rat: unknown key, did you mean limits."a.b".rate?'),
        ("[[stages]]\n[[stages]]\nrat = 1", "unknown key, did you mean stages[1].rate?"),
        ('[source]\nkind = "camera"\npath = "x"', "source.path: unknown key"),
        ('"a\\u001bb" = 1', r'"a\u001bb": unknown key'),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(config.UnknownKeyError) as caught:
        parsed(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "device.toml: name: is required and not given"),
        ("name = 3", "device.toml: name: expected a string, got an integer"),
        ('name = "a"\n[link]\nwindow = 0', "device.toml: link.window: expected an integer >= 1"),
        ('name = "a"\n[link]\nretry_s = "1"', "link.retry_s: expected a number, got a string"),
        ('name = "a"\n[link]\nretry_s = nan', "link.retry_s: expected a number > 0"),
        ('name = "a"\nlink = 3', "device.toml: link: expected a table, got an integer"),
        ('name = "a"\nmode = "both"', 'device.toml: mode: expected one of "full", "split"'),
        ('name = "a"\ncodec = "q9"', 'device.toml: codec: expected one of "raw", "q8"'),
        ('name = "a"\nthreads = 0', "device.toml: threads: expected an integer >= 1"),
        ('name = "a"\nlabels = "x"', "device.toml: labels: expected a list, got a string"),
        ('name = "a"\nlabels = ["x", 1]', "device.toml: labels[1]: expected a string"),
        ('name = "a"\n[limits.cam]\nrate = -1', "device.toml: limits.cam.rate: expected a number"),
        ('name = "a"\n[limits]\ncam = 1', "device.toml: limits.cam: expected a table"),
        ('name = "a"\n[[stages]]\nrate = true', "device.toml: stages[0].rate: expected a number"),
        ('name = "a"\n[source]\nkind = "folder"', "device.toml: source.path: is required"),
        ('name = "a"\n[source]\nkind = "scanner"', "device.toml: source.kind: "),
        ('name = "a"\nkey = 3', "device.toml: key: expected a path in quotes"),
        ('name = "a"\nkey = ""', "device.toml: key: expected a path in quotes"),
        ('name = "a"\nkey = "~nobody-here/x"', "device.toml: key: "),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(config.BadValueError) as caught:
        parsed(text)
    assert message in caught.value.message


def test_a_wrong_flag_is_not_blamed_on_the_file() -> None:
    with pytest.raises(config.BadValueError, match=r"command line: link\.window: expected an int"):
        parsed('name = "a"\n[link]\nwindow = 2', link__window=0)
    with pytest.raises(config.UnknownKeyError, match="command line: lnk: unknown key"):
        parsed('name = "a"', lnk__window=1)
    with pytest.raises(config.BadValueError, match=r"device\.toml: link: expected a table"):
        parsed('name = "a"\nlink = 3', link__window=1)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name = a", "at line 1, column 8"),
        ('name = "a"\n\n[link\n', "at line 3"),
        ('name = "a"\nkey =', "at line 2, the last"),
        ("labels = " + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(text: str, where: str) -> None:
    with pytest.raises(config.ConfigSyntaxError) as caught:
        parsed(text)
    assert caught.value.message.startswith("device.toml: ")
    assert where in caught.value.message


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigMissingError, match=r"none\.toml"):
        config.load(Device, tmp_path / "none.toml")
    with pytest.raises(config.ConfigUnreadableError, match="directory"):
        config.load(Device, tmp_path)
    (tmp_path / "binary.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(config.ConfigUnreadableError, match="UTF-8"):
        config.load(Device, tmp_path / "binary.toml")
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(config.MAX_FILE_BYTES + 1)
    with pytest.raises(config.ConfigUnreadableError, match="larger"):
        config.load(Device, tmp_path / "huge.toml")


def test_without_a_home_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ConfigError, match="XDG_CONFIG_HOME"):
        config.home()


def test_the_example_documents_every_key() -> None:
    assert (
        config_example.example(Device)
        == """\
# A device that exists for these tests.
# name =    (required)
codec = "q8"
mode = "split"
threads = "auto"
# key =    (not set)
labels = ["person", "b]x"]
# limits = {}
stages = []

# How to reach the edge.
[link]
# Where the edge listens.
endpoint = "tcp://127.0.0.1:5555"

# First pause before a retry.
retry_s = 0.25
window = 8

# # How to reach the edge.
# [spare]
# # Where the edge listens.
# endpoint = "tcp://127.0.0.1:5555"
#
# # First pause before a retry.
# retry_s = 0.25
# window = 16

[source]
kind = "camera"
device = 0
"""
    )


def test_the_example_is_the_defaults() -> None:
    text = config_example.example(Device)
    assert parsed(text, name="a") == Device(name="a")
    assert config.parse(Link, config_example.example(Link), source="example") == Link()


class Free(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    number: float = 0.0
    table: dict[str, str] = {}


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    number=st.floats(allow_nan=False),
    table=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.text(st.characters(exclude_categories=["Cs"])),
        max_size=3,
    ),
)
def test_any_default_survives_the_example(text: str, number: float, table: dict[str, str]) -> None:
    kind = msgspec.defstruct(
        "Kind",
        [
            ("text", str, text),
            ("number", float, number),
            ("table", dict[str, str], msgspec.field(default_factory=lambda: table)),
        ],
        frozen=True,
        kw_only=True,
    )
    assert config.parse(kind, config_example.example(kind), source="example") == kind()


@given(text=st.text(max_size=60))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        assert parsed(text, name="a").name == "a"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    mode: str = "edge"

    def __post_init__(self) -> None:
        if self.mode == "edge":
            raise ValueError("mode is edge, but there is none")


def test_what_a_configuration_refuses_as_a_whole_names_no_key() -> None:
    with pytest.raises(
        config.BadValueError, match=r"^file\.toml: mode is edge, but there is none$"
    ):
        config.parse(Checked, "", source="file.toml")


def test_given_looks_in_the_file_and_in_the_flags(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text("[link]\nretry_s = 2.0\n")
    given = config.given(path, {"name": "cam", "link.window": None})
    assert [key for key in ("name", "link.retry_s", "link.window", "x.y") if given(key)] == [
        "name",
        "link.retry_s",
    ]


def test_a_zero_byte_in_a_files_name_is_said() -> None:
    with pytest.raises(config.ConfigUnreadableError, match="null byte"):
        config.read(Path("edge\0.toml"))
