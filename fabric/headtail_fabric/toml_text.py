"""Keys and plain values in TOML's notation."""

import json
import re
from collections.abc import Mapping
from typing import Final

Key = tuple[str | int, ...]
"""The steps from the root to a place: names of keys, and indices of lists."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def dotted(at: Key) -> str:
    """`at` as TOML writes it, with indices in brackets."""
    text = ""
    for step in at:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = _BARE_KEY.fullmatch(step) or step == "*"
            text += ("." if text else "") + (step if plain else toml_value(step))
    return text


def toml_value(value: object) -> str:
    """A plain value in TOML's notation."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, but TOML wants DEL escaped too.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case Mapping():
            pairs = (f"{dotted((key,))} = {toml_value(inner)}" for key, inner in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _:
            raise TypeError(f"{value!r} can't be written as TOML")
