"""Gateways and nodes as real processes, for the system tests of the firmware."""

import argparse
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headtail.commands import node as node_command
from mcu_bundle import McuWorld, write_levels
from micropython_runner import FIRMWARE, start, tool
from processes import Headtail, records

RESTARTED = 75


def compile_firmware(folder: Path) -> Path:
    """The firmware as a node has it: precompiled, for this machine."""
    build = runpy.run_path(str(FIRMWARE / "build.py"))
    build["compile_modules"]("x64", folder, compiler=tool("mpy-cross"))
    return folder


def new_node(name: str, out: Path, nodes: Path, *options: str | Path) -> None:
    """`headtail node new`."""
    parser = argparse.ArgumentParser()
    node_command.add(parser.add_subparsers())
    words = ["node", "new", name, "--out", out, "--nodes", nodes, "--host", "127.0.0.1"]
    words += ["--head", "board.head", "--app", "headtail_mcu.replay", *options]
    args = parser.parse_args([str(word) for word in words])
    assert args.handler(args) == 0


class NodeFolder:
    """A node's files, made by `headtail node new`, and its processes."""

    def __init__(
        self, name: str, folder: Path, world: McuWorld, nodes: Path, *options: str | Path
    ) -> None:
        self.name = name
        self.path = folder / name
        new_node(name, self.path, nodes, *options)
        (self.path / "board.head").write_bytes(world.program.blob)
        samples = write_levels(world, self.path / "samples.bin")
        self.set("app.options", {"file": str(samples), "print": True})

    def set(self, key: str, value: object) -> None:
        """Change `config.json` at a dotted key."""
        path = self.path / "config.json"
        config = json.loads(path.read_text())
        *parents, last = key.split(".")
        table = config
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = value
        path.write_text(json.dumps(config))

    def start(self, modules: Path, **options: Any) -> "subprocess.Popen[str]":
        return start("node.py", self.path, modules=modules, **options)

    def run(self, modules: Path) -> tuple[int, str]:
        """Until its end; (status, what it printed)."""
        with self.start(modules) as process:
            output, _ = process.communicate(timeout=60)
        return process.returncode, output


class Supervised:
    """A node that is started again whenever it ends, as a board's reset would."""

    def __init__(self, node: NodeFolder, modules: Path) -> None:
        self._log = (node.path / "console.log").open("a+")
        script = Path(__file__).parents[1] / "firmware" / "scripts" / "node.py"
        command = [tool("micropython"), "-X", "heapsize=192k", str(script), str(node.path)]
        quoted = " ".join(f"'{word}'" for word in command)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f"while true; do {quoted}; echo ended $?; done"],
            env={**os.environ, "MICROPYPATH": f"{modules}:.frozen"},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait()
        if kind is not None:
            sys.stderr.write(self.console())
        self._log.close()

    def console(self) -> str:
        """What was printed so far."""
        return Path(self._log.name).read_text()


class GatewayFolder:
    """A gateway's files: `gateway.toml`, the list of nodes, keys, records."""

    def __init__(self, folder: Path, edge: str, world: McuWorld) -> None:
        self.path = folder
        self.nodes = folder / "nodes.toml"
        self.records_path = folder / "records.jsonl"
        self.world = world
        self._edge = edge
        parts = [sys.executable, "-m", "headtail", "keys", "new", "gw", "--dir", str(folder)]
        subprocess.run(parts, check=True, stdout=subprocess.DEVNULL)
        self.public = folder / "gw.pub"

    def write(self, *links: str, update: Path | None = None, more: str = "") -> None:
        """`links`: tables of TOML, each on its lines."""
        tables = "\n".join(f"[[links]]\n{link}" for link in links)
        offered = f'update = "{update}"\n' if update is not None else ""
        (self.path / "gateway.toml").write_text(
            'key = "gw.key"\nnodes = "nodes.toml"\nstate = "state"\nrecords = "records.jsonl"\n'
            f'{tables}\n[models.board]\nheads = ["{self.world.head}"]\n'
            f'bundle = "{self.world.bundle.path}"\n{offered}'
            f'[edge]\nendpoint = "{self._edge}"\ndeadline_s = 2.0\n{more}'
        )

    def start(self) -> Headtail:
        return Headtail("edge", "gateway", "--config", self.path / "gateway.toml")

    def lines(self, kind: str | None = None, node: str | None = None) -> list[dict[str, Any]]:
        """What was written down so far."""
        return [
            line
            for line in records(self.records_path)
            if kind in (None, line["kind"]) and node in (None, line["node"])
        ]


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])
