"""One root error; below it, who is at fault.

The docstring of each error class is the advice that the command line prints below the message:
it says what happened and what to do next. Facts that a program may want are fields.
"""

import inspect


class HeadtailError(Exception):
    """Something went wrong inside Headtail."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    @property
    def advice(self) -> str:
        """What to do next, for a person: the class docstring on one line."""
        return " ".join((inspect.getdoc(type(self)) or "").split())


class LocalError(HeadtailError):
    """Headtail was used wrongly by its own caller, or has a bug. Please report it."""


class PeerError(HeadtailError):
    """The other side of a connection did something that this side can't accept."""


class ConfigError(HeadtailError):
    """The configuration is wrong. Correct the named value in the file or on the command line."""


class ResourceError(HeadtailError):
    """The machine refused a resource: a file, a port, memory or disk space. See the message."""
