"""What a node would say of its files, said before they are copied to it.

The firmware's own modules read them, in this Python and in a folder laid out as the node's, up to
where a node would open its link and its sensor: so the rules are the node's, and the head has to
compute its golden vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from headtail.boards.checkout import FIRMWARE, firmware_module
from headtail_fabric.errors import ConfigError

_CODE: Final = (".py", ".mpy")


class NodeFilesError(ConfigError):
    """A node with these files would not start. Correct what the message names, and check again;
    what each field may be is told in firmware/README.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Files that a node would start with, `config` and `secrets` with every field.

    Records of its head have up to `record_bytes`, of the `record_room` that its log has for one.
    """

    config: Mapping[str, Any]
    secrets: Mapping[str, Any]
    head_bytes: int
    record_bytes: int
    record_room: int


def check_files(folder: Path, others: Sequence[Path]) -> NodeFiles:
    """Of `config.json`, `secrets.json` and what else lies in `folder`, and of `others`, which are
    to lie beside them on the node. Nothing is changed.

    Raises NodeFilesError, NoFirmwareError.
    """
    errors = firmware_module("errors")
    try:
        config, secrets = firmware_module("config").load(
            str(folder / "config.json"), str(folder / "secrets.json")
        )
        with TemporaryDirectory() as laid_out:
            node = Path(laid_out)
            _lay_out(node, [*_found(folder), *others], without=config["log"]["file"])
            return _started(node, config, secrets)
    except errors.NodeError as error:
        raise NodeFilesError(str(error)) from None


def _started(node: Path, config: dict[str, Any], secrets: dict[str, Any]) -> NodeFiles:
    """As the firmware's `assembly` does it."""
    at = f"{node}/"
    heads = firmware_module("heads").Heads(config["head"], at, None)
    heads.open()
    log = firmware_module("parts").open_log(config["log"], at, heads.largest)
    log.close()
    certificate, app = config["link"]["tls_ca"], config["app"]["module"]
    if certificate and not (node / certificate).is_file():
        raise NodeFilesError(f"{certificate} (link.tls_ca) is not there: copy it to the node")
    code = Path(*app.split("."))
    if not any(
        (root / code).with_suffix(end).is_file() for root in (node, FIRMWARE) for end in _CODE
    ):
        raise NodeFilesError(f"app.module {app} is not there: copy it to the node")
    return NodeFiles(
        config=config,
        secrets=secrets,
        head_bytes=(node / config["head"]["file"]).stat().st_size,
        record_bytes=heads.largest,
        record_room=log.capacity,
    )


def _found(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]


def _lay_out(node: Path, files: Sequence[Path], *, without: str) -> None:
    """What the node makes itself, its log, is not among them."""
    for path in files:
        if not path.is_file():
            raise NodeFilesError(f"{path} is no file")
        if path.name == without:
            continue
        if (node / path.name).exists():
            raise NodeFilesError(f"{path}: two files are called {path.name}")
        (node / path.name).symlink_to(path.resolve())
