"""A configuration as a commented TOML file of all its defaults: a file to begin with."""

import textwrap

import msgspec
from msgspec import NODEFAULT, inspect

from headtail_fabric.config import options_of
from headtail_fabric.toml_text import Key, dotted, toml_value


def example(kind: type[msgspec.Struct]) -> str:
    """All keys with their descriptions and defaults, as a file that `load` takes.

    What has no default is there as a comment.
    """
    schema = inspect.type_info(kind)
    assert isinstance(schema, inspect.StructType)
    return "\n".join([*_comment(kind.__doc__), *_table(schema, None, ())]).strip() + "\n"


def _table(schema: inspect.StructType, value: object, at: Key) -> list[str]:
    """The lines of one table: its own keys, then the tables in it."""
    own, tables = [], []
    if schema.tag_field is not None:
        own.append(f"{schema.tag_field} = {toml_value(schema.tag)}")
    for field in schema.fields:
        key = (*at, field.encode_name)
        default = _default(field) if value is None else getattr(value, field.name)
        notes = _comment(_description(field.type))
        nested = _struct(field.type, default)
        if nested is None:
            gap = [""] if own and notes else []
            own += [*gap, *notes, _entry(field.encode_name, default)]
            continue
        inner = default if isinstance(default, msgspec.Struct) else None
        lines = [*(notes or _comment(nested.cls.__doc__)), f"[{dotted(key)}]"]
        lines += _table(nested, inner, key)
        unset = default is None
        tables += ["", *(f"# {line}".rstrip() if unset else line for line in lines)]
    return [*own, *tables]


def _default(field: inspect.Field) -> object:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def _struct(kind: inspect.Type, default: object) -> inspect.StructType | None:
    """The table that a field is, if it is one; of several, that of the default."""
    structs = [option for option in options_of(kind) if isinstance(option, inspect.StructType)]
    chosen = [option for option in structs if option.cls is type(default)]
    return next(iter(chosen or structs), None)


def _entry(name: str, default: object) -> str:
    key = dotted((name,))
    if default is NODEFAULT:
        return f"# {key} =    (required)"
    if default is None:
        return f"# {key} =    (not set)"
    line = f"{key} = {toml_value(msgspec.to_builtins(default, enc_hook=str))}"
    # An empty inline table would forbid the tables that someone adds below.
    return f"# {line}" if default == {} else line


def _description(kind: inspect.Type) -> str | None:
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(text)}):
            return text
    return None


def _comment(text: str | None) -> list[str]:
    paragraph = " ".join((text or "").split())
    return [f"# {line}" for line in textwrap.wrap(paragraph, width=96)]
