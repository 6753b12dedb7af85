"""vLLM in a child process, under an interpreter that has it."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headtail.load.rivals import vllm_engine

_STOP_S: Final = 20.0


def interpreter(named: Path | None) -> Path | None:
    """The one named, else this one where it has vLLM, else None."""
    if named is None and importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    return named


class VllmRival:
    """`headtail.load.rivals.vllm_engine` with a model's folder; a context manager. Its log goes to
    `log`. Raises RuntimeError when it does not come up or ends early."""

    def __init__(
        self, python: Path, model: Path, *, max_batch: int, max_tokens: int, log: Path
    ) -> None:
        limits = ("--max-batch", str(max_batch), "--max-tokens", str(max_tokens))
        self._command = (str(python), vllm_engine.__file__, str(model), *limits)
        self._log = log
        self.version = ""

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - named by who runs the benchmark
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self.version = str(self._answer()["version"])
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()  # nothing more to read: it ends
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def cpu_s(self, prompts: Sequence[Sequence[int]], answer: int) -> float:
        """Processor seconds for prompts of token ids and `answer` tokens to each."""
        assert self._process.stdin is not None, "opened as a pipe"
        print(
            json.dumps({"prompts": [list(tokens) for tokens in prompts], "answer": answer}),
            file=self._process.stdin,
            flush=True,
        )
        return float(self._answer()["cpu_s"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "opened as a pipe"
        line = self._process.stdout.readline()
        if not line:
            tail = self._log.read_bytes()[-500:].decode(errors="replace")
            raise RuntimeError(f"vLLM has ended; its log ends: {tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer
