"""What may happen to a runner, for tests that let anything happen."""

import numpy as np

from device_doubles import BY_DEVICE, Bench
from headtail_device.head import Ended
from headtail_device.ledger import Outcome
from headtail_device.record import Cost
from headtail_device.source import Dropped, Unreadable
from headtail_fabric.errors import ResourceError
from headtail_fabric.peer.events import Alternative
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle.manifest import Filter, StageEntry
from headtail_models.head_chain import Verdict

ACTIONS = (
    "feed", "feed", "feed", "respond", "respond", "respond last", "fail", "refuse", "unknown",
    "cut", "heal", "restart", "short wait", "long wait", "work", "unreadable", "dropped",
    "head fails", "all fails", "exit", "filter", "advise",
)  # fmt: skip


def ended(outcome: Outcome) -> Ended:
    entry = StageEntry(file="f", inputs=(), outputs=(), macs=3)
    gate = Filter(name="presence", branch=entry, threshold=0.5, recall=0.9)
    verdict = Verdict(gate=gate, confidence=0.25, ends=True, shares=np.array([0.75, 0.25]))
    return Ended(
        outcome=outcome,
        answer=BY_DEVICE,
        verdicts=(verdict,),
        cost=Cost(seconds=0.01, macs=3),
    )


def act(bench: Bench, action: str, index: int) -> int:
    """Returns how many frames were accepted."""
    bench.head.encode_error = bench.head.whole_error = bench.head.ended = None
    match action:
        case "unreadable":
            bench.runner.on_item(Unreadable(index=index, origin="test", reason="broken"))
            return 1
        case "dropped":
            bench.runner.on_item(Dropped(index=index, origin="test"))
            return 1
        case "feed" | "head fails" | "all fails" | "exit" | "filter":
            if not bench.runner.wants_frame:
                return 0
            if action in ("exit", "filter"):
                bench.head.ended = ended(Outcome.EXIT if action == "exit" else Outcome.FILTERED)
            elif action != "feed":
                bench.head.encode_error = ResourceError("no memory")
            bench.feed(index)
            if action == "all fails":
                bench.head.whole_error = ResourceError("no memory")
                bench.work_off()
            return 1
        case "respond" if bench.arrived:
            bench.respond()
        case "respond last" if bench.arrived:
            bench.arrived.reverse()
            bench.respond()
        case "fail" if bench.arrived:
            bench.fail(ErrorCode.INTERNAL)
        case "unknown" if bench.arrived:
            bench.fail(ErrorCode.UNKNOWN_BUNDLE)
        case "refuse" if bench.arrived:
            bench.refuse(retry_after_s=0.3)
        case "advise" if bench.arrived:
            bench.refuse(retry_after_s=0.3, instead=Alternative(cut="late", codec="q8"))
        case "cut":
            bench.link.cut()
        case "heal":
            bench.link.heal()
        case "restart":
            bench.restart_server()
        case "short wait":
            bench.pass_time(0.05)
        case "long wait":
            bench.pass_time(1.5)
        case "work" if bench.runner.has_work:
            bench.runner.work()
    return 0
