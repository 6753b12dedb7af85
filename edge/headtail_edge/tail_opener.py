"""Opens tails that are due before they are asked for, beside the requests.

With a cap on memory the stage of a tail that was not used for long is closed (`StageMemory`); who
announces it finds it open again.
"""

import logging
import threading
from queue import Empty, Full, Queue
from typing import Final

from headtail_edge.plan import TailPlan
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2


class TailOpener:
    """One at a time: what is announced while another one is opened waits for its first request, so
    that announcements cost no more than that."""

    def __init__(self) -> None:
        self._due: Queue[TailPlan] = Queue(maxsize=1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="opener", daemon=True)

    def due(self, plan: TailPlan) -> None:
        """A request for it will come."""
        if plan.stage.is_open:
            return
        try:
            self._due.put_nowait(plan)
        except Full:
            log.debug("tail not opened ahead", extra=fields(plan=plan.key))

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._stop.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                plan = self._due.get(timeout=_POLL_S)
            except Empty:
                continue
            try:
                plan.stage.get()
            except Exception:  # its requests will say so
                log.warning("tail not opened ahead", exc_info=True, extra=fields(plan=plan.key))
