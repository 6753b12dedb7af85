"""A program's configuration: one frozen value, built once from a TOML file and flags.

A configuration type is a frozen, keyword-only `msgspec.Struct`, with structs for its tables.
Defaults are written there and nowhere else, and a field is described where it is declared:

    class EdgeConfig(msgspec.Struct, frozen=True, kw_only=True):
        port: Annotated[int, Meta(ge=1, le=65535, description="TCP port.")] = 5555

A relative path in the file is relative to the file's folder, and `~` is the user's home.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from headtail_fabric.errors import ConfigError
from headtail_fabric.toml_text import Key, dotted, toml_value

MAX_FILE_BYTES: Final = 4 * 1024 * 1024

_Config = TypeVar("_Config", bound=msgspec.Struct)
_COMMAND_LINE: Final = "command line"
_MSGSPEC_ERROR: Final = re.compile(
    r"(?P<what>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL
)
_MSGSPEC_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(.*)`")
_WORDS: Final = {
    "Expected": "expected",
    "`object`": "a table",
    "`array`": "a list",
    "`int`": "an integer",
    "`float`": "a number",
    "`str`": "a string",
    "`bool`": "true or false",
    "`null`": "nothing",
}


class ConfigMissingError(ConfigError):
    """There is no such configuration file. Correct the path, or leave it out to run on the
    defaults."""


class ConfigUnreadableError(ConfigError):
    """The configuration file can't be read. Check its owner and its permissions, and that it is a
    text file."""


class ConfigSyntaxError(ConfigError):
    """The configuration file is not TOML. Correct the line that the message names; strings need
    quotes, and a table's name stands in [brackets]."""


class UnknownKeyError(ConfigError):
    """The configuration has a key that this version does not know. Correct its name, or remove it;
    nothing is ignored silently."""


class BadValueError(ConfigError):
    """A value in the configuration is of the wrong kind or out of its range. Correct it where the
    message says."""


def home() -> Path:
    """Headtail's folder for configuration. Raises ConfigError when no home folder is known."""
    return _xdg_folder("XDG_CONFIG_HOME", ".config")


def cache_home() -> Path:
    """Headtail's folder for what can be made again. Raises ConfigError as `home` does."""
    return _xdg_folder("XDG_CACHE_HOME", ".cache")


def _xdg_folder(variable: str, default: str) -> Path:
    """By the XDG Base Directory Specification: a relative setting is ignored."""
    chosen = Path(os.environ.get(variable, ""))
    try:
        return (chosen if chosen.is_absolute() else Path.home() / default) / "headtail"
    except RuntimeError:
        raise ConfigError(f"no home folder is known: set HOME or {variable}") from None


def load(
    kind: type[_Config], path: Path | None, flags: Mapping[str, object] | None = None
) -> _Config:
    """The configuration in the file `path`, if any, overridden by `flags`.

    `flags` maps dotted keys, such as `link.retry_s`, to values that have their type already;
    None stands for a flag that was not given. Raises ConfigMissingError, ConfigUnreadableError,
    ConfigSyntaxError, UnknownKeyError, BadValueError.
    """
    if path is None:
        return parse(kind, "", source="defaults", flags=flags)
    return parse(kind, read(path), source=str(path), folder=path.parent, flags=flags)


def given(path: Path | None, flags: Mapping[str, object]) -> Callable[[str], bool]:
    """Whether a dotted key is set by the file or the flags. Raises what `load` does for a file
    that can't be read or is no TOML."""
    tables = {} if path is None else _tables(read(path), str(path))

    def is_given(key: str) -> bool:
        value: object = tables
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value is not None or flags.get(key) is not None

    return is_given


def read(path: Path) -> str:
    """The text of a file. Raises ConfigMissingError, ConfigUnreadableError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigMissingError(f"no file {path}", path=path) from None
    except OSError as error:
        raise ConfigUnreadableError(f"{path}: {error.strerror}", path=path) from None
    except ValueError as error:  # a zero byte in the name
        raise ConfigUnreadableError(f"{str(path)!r}: {error}", path=path) from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigUnreadableError(f"{path} is larger than {MAX_FILE_BYTES} bytes", path=path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigUnreadableError(f"{path} is not UTF-8 text: {error}", path=path) from None


def parse(
    kind: type[_Config],
    text: str,
    *,
    source: str,
    folder: Path = Path(),
    flags: Mapping[str, object] | None = None,
) -> _Config:
    """The configuration in `text`; `source` names it in errors. Raises as `load`, but for the
    errors of reading."""
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    reader = _Reader(kind, source=source, folder=folder, flags=given)
    data = _tables(text, source)
    reader.merge_flags(data)
    reader.check(data, reader.schema, ())
    return reader.convert(data, kind, ())


def _tables(text: str, source: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines())}, the last"
        message = str(error).replace("at end of document", end)
        raise ConfigSyntaxError(f"{source}: {message}", source=source) from None
    except RecursionError:
        raise ConfigSyntaxError(f"{source}: nested too deeply", source=source) from None


class _Reader:
    """Turns tables into a configuration, and msgspec's errors into ours."""

    def __init__(
        self,
        kind: type[msgspec.Struct],
        *,
        source: str,
        folder: Path,
        flags: Mapping[str, object],
    ) -> None:
        self.schema = inspect.type_info(kind)
        self._source = source
        self._folder = folder
        self._flags = flags
        self._flagged = set(flags)

    def merge_flags(self, data: dict[str, object]) -> None:
        for key, value in self._flags.items():
            *parents, last = key.split(".")
            table = data
            for depth, name in enumerate(parents, start=1):
                at = ".".join(parents[:depth])
                if name not in table:
                    self._flagged.add(at)
                inner = table.setdefault(name, {})
                if not isinstance(inner, dict):
                    raise BadValueError(f"{self._source}: {at}: expected a table", key=at)
                table = inner
            table[last] = value

    def check(self, value: object, kind: inspect.Type, at: Key) -> None:
        """Raise UnknownKeyError for the first key that `kind` does not know, at any depth."""
        for option in options_of(kind):
            match option, value:
                case inspect.StructType(), dict() if _chosen(option, value):
                    known = {field.encode_name: field.type for field in option.fields}
                    for name, inner in value.items():
                        if name in known:
                            self.check(inner, known[name], (*at, name))
                        elif name != option.tag_field:
                            raise self._unknown((*at, name), known)
                case inspect.DictType(), dict():
                    for name, inner in value.items():
                        self.check(inner, option.value_type, (*at, name))
                        self._check_entry(inner, option.value_type, (*at, name))
                case inspect.ListType() | inspect.VarTupleType(), list() | tuple():
                    for index, inner in enumerate(value):
                        self.check(inner, option.item_type, (*at, index))

    def _check_entry(self, value: object, kind: inspect.Type, at: Key) -> None:
        """Convert an entry on its own: msgspec does not say which of a mapping's it was."""
        match list(options_of(kind)):
            case [inspect.StructType(cls=cls)]:
                self.convert(value, cls, at)

    def convert(self, value: object, kind: type[_Config], at: Key) -> _Config:
        try:
            return msgspec.convert(value, kind, dec_hook=self._path)
        except msgspec.ValidationError as error:
            raise self._bad_value(str(error), at) from None

    def _path(self, kind: type, value: object) -> PurePath:
        if not issubclass(kind, PurePath):
            raise TypeError(f"a configuration can't hold {kind}")
        if isinstance(value, PurePath):
            return value
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError("Expected a path in quotes")
        try:
            return self._folder / Path(value).expanduser()
        except RuntimeError as error:
            raise ValueError(str(error)) from None

    def _unknown(self, at: Key, known: Mapping[str, object]) -> UnknownKeyError:
        name, key = str(at[-1]), dotted(at)
        nearest = [dotted((*at[:-1], near)) for near in difflib.get_close_matches(name, known, 1)]
        nearest += [dotted(key) for key in _keys(self.schema, ()) if key[-1] == name]
        hint = f"did you mean {nearest[0]}?" if nearest else f"known here: {', '.join(known)}"
        return UnknownKeyError(
            f"{self._blamed(key)}: {key}: unknown key, {hint}",
            key=key,
            nearest=nearest[0] if nearest else None,
        )

    def _bad_value(self, message: str, at: Key) -> BadValueError:
        match = _MSGSPEC_ERROR.fullmatch(message)
        assert match is not None  # the pattern takes any text
        what = match["what"]
        for name, index in _MSGSPEC_STEP.findall(match["path"] or ""):
            at = (*at, name or (int(index) if index.isdigit() else "*"))
        if missing := _MISSING_FIELD.fullmatch(what):
            at, what = (*at, missing[1]), "is required and not given"
        elif choices := _choices(self.schema, at):
            what = f"expected one of {', '.join(choices)}"
        for word, plain in _WORDS.items():
            what = what.replace(word, plain)
        key = dotted(at)
        place = f"{self._blamed(key)}: {key}" if key else self._source
        return BadValueError(f"{place}: {what}", key=key)

    def _blamed(self, key: str) -> str:
        steps = key.split(".")
        parents = {".".join(steps[:depth]) for depth in range(1, len(steps) + 1)}
        return _COMMAND_LINE if parents & self._flagged else self._source


def options_of(kind: inspect.Type) -> Iterator[inspect.Type]:
    """What `kind` may be, without its annotations; several for a union."""
    match kind:
        case inspect.Metadata(type=inner):
            yield from options_of(inner)
        case inspect.UnionType(types=types):
            for inner in types:
                yield from options_of(inner)
        case _:
            yield kind


def _chosen(option: inspect.StructType, value: dict[str, object]) -> bool:
    """Whether `value` is meant for this struct, where a union has several, told by their tag."""
    return option.tag_field is None or value.get(option.tag_field, option.tag) == option.tag


def _inner(kind: inspect.Type, step: str | int) -> Iterator[inspect.Type]:
    for option in options_of(kind):
        match option:
            case inspect.StructType(fields=fields):
                yield from (field.type for field in fields if field.encode_name == step)
            case inspect.DictType(value_type=inner):
                yield inner
            case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
                yield inner


def _choices(kind: inspect.Type, at: Key) -> list[str]:
    """The values that the field `at` may have, when they are a closed set."""
    if at:
        return [choice for inner in _inner(kind, at[0]) for choice in _choices(inner, at[1:])]
    found: list[str] = []
    for option in options_of(kind):
        match option:
            case inspect.LiteralType(values=values):
                found += [toml_value(value) for value in values]
            case inspect.EnumType(cls=cls):
                found += [toml_value(member.value) for member in cls]
            case inspect.NoneType():
                continue
            case _:
                return []
    return found


def _keys(kind: inspect.Type, at: Key) -> Iterator[Key]:
    """Every key of a configuration that lies in fixed tables."""
    for option in options_of(kind):
        if isinstance(option, inspect.StructType):
            for field in option.fields:
                yield (*at, field.encode_name)
                yield from _keys(field.type, (*at, field.encode_name))
