"""What a gateway makes of nodes' messages: order, repetition, names, quotas, sleep, updates."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_doubles import CountingMetrics
from headtail_edge.gateway import messages
from headtail_edge.gateway.config import QuotaConfig
from headtail_edge.gateway.core import GatewayCore
from headtail_edge.gateway.metrics import GatewayMetrics
from headtail_edge.gateway.models import Crossing, Model, Models, Update
from headtail_edge.gateway.node_book import NodeEntry, Roster
from headtail_edge.gateway.records import Line
from headtail_edge.gateway.session import Session, Told
from headtail_edge.gateway.traffic import Arrival, Inquiry, Route
from headtail_fabric.wire import DType, TensorInfo

HEAD, OTHER_HEAD, LOG = 0xAAAA, 0xBBBB, 77
CROSSING = Crossing(
    digest=bytes(32),
    cut="board",
    tensor=TensorInfo(name="f", dtype=DType.FLOAT32, shape=(1, 4), codec="q8-nhwc"),
    payload_bytes=4,
)
UPDATE = Update(release=2, head=OTHER_HEAD, data=bytes(range(256)) * 10)
WALL = 1_800_000_000.0


def hello(
    name: str = "door-1", *, boot: int = 1, log: int = LOG, acked: int = 0, head: int = HEAD
) -> bytes:
    fields = struct.pack("<BIB3BIIIIB", 1, boot, 1, 0, 1, 0, head, 0, log, acked, 0)
    return fields + name.encode()


def record(sequence: int, payload: bytes, *, previous: int | None = None, boot: int = 1) -> bytes:
    before = sequence - 1 if previous is None else previous
    return struct.pack("<BIIII", 2, boot, sequence, before, 0) + payload


def decision(answer: int = 1, head: int = HEAD) -> bytes:
    return struct.pack("<BIHH", 1, head, answer, 65535)


def features(levels: bytes = b"1234", head: int = HEAD) -> bytes:
    return struct.pack("<BI", 2, head) + levels


def bye(seconds: int, boot: int = 1) -> bytes:
    return struct.pack("<BII", 4, boot, seconds)


class Rig:
    """A core with two models, and what it wants done in words."""

    def __init__(self, **quota: Any) -> None:
        model = Model(name="digits", labels=("no", "yes"), crossing=CROSSING, update=UPDATE)
        self.counted = CountingMetrics()
        self.core = GatewayCore(
            roster=Roster(
                {
                    "door-1": NodeEntry(public="x"),
                    "door-2": NodeEntry(public="y"),
                    "open": NodeEntry(),
                }
            ),
            models=Models({HEAD: model, OTHER_HEAD: model}),
            quota=QuotaConfig(**quota),
            silent_s=100.0,
            metrics=GatewayMetrics(self.counted),
        )
        self.now = 0.0

    def send(
        self, data: bytes, node: str | None = "door-1", address: object = "a", link: int = 0
    ) -> list[str]:
        """What is answered, as `to a: ack 3`."""
        route = Route(link, address)
        self.core.receive(Arrival(route=route, node=node, data=data), self.now, WALL)
        return self.answers()

    def answers(self) -> list[str]:
        return [f"to {d.route.address}: {words(d.data)}" for d in self.core.to_send()]

    def lines(self) -> list[Line]:
        return self.core.lines()

    def ask(self, free: int = 16) -> list[Inquiry]:
        return self.core.inquiries(free)

    @property
    def dropped(self) -> dict[str, float]:
        return {
            reason: count for (reason,), count in self.counted.totals["gateway_dropped"].items()
        }


def words(data: bytes) -> str:
    kind, boot = struct.unpack_from("<BI", data)
    body = data[5:]
    match kind:
        case 129:
            return f"welcome {boot}"
        case 130:
            return f"ack {int.from_bytes(body, 'little')}"
        case 131:
            sequence, status, answer, _ = struct.unpack("<IBHH", body)
            return f"answer {sequence}: {'failed' if status else answer}"
        case 132:
            return "offer {} of {} bytes".format(*struct.unpack("<II", body))
        case 133:
            return f"piece at {struct.unpack_from('<II', body)[1]}, {len(body) - 8} bytes"
        case 134:
            return f"refused: {body.decode()}"
        case _:
            return "stranger"


def greeted(**quota: Any) -> Rig:
    rig = Rig(**quota)
    assert rig.send(hello()) == ["to a: welcome 1", "to a: ack 0", "to a: offer 2 of 2560 bytes"]
    return rig


def test_a_decision_of_the_board_is_written_down_and_acknowledged() -> None:
    rig = greeted()
    assert rig.send(record(1, decision())) == ["to a: ack 1"]
    (line,) = rig.lines()
    assert (line.node, line.kind, line.sequence, line.time_s) == ("door-1", "answer", 1, WALL)
    assert line.values == {"model": "digits", "where": "board", "label": "yes", "score": 1.0}


def test_features_are_acknowledged_once_they_are_answered() -> None:
    rig = greeted()
    assert rig.send(record(1, features())) == ["to a: ack 0"]
    (inquiry,) = rig.ask()
    assert (inquiry.crossing, inquiry.payload) == (CROSSING, b"1234")
    assert rig.send(record(2, decision())) == ["to a: ack 0"]
    rig.core.answered(inquiry.ticket, 1, 0.75)
    assert rig.answers() == ["to a: answer 1: 1", "to a: ack 2"]
    assert [line.sequence for line in rig.lines()] == [2, 1]
    rig.core.answered(inquiry.ticket, 0, 0.5)  # twice: nobody asks any more
    assert rig.answers() == []


def test_what_comes_again_is_dealt_with_once() -> None:
    rig = greeted()
    for _ in range(3):
        rig.send(record(1, features()))
    assert len(rig.ask()) == 1
    assert rig.send(record(2, decision())) == ["to a: ack 0"]
    assert rig.send(record(2, decision())) == ["to a: ack 0"]
    assert len(rig.lines()) == 1


def test_records_that_the_node_has_lost_are_not_waited_for() -> None:
    rig = greeted()
    assert rig.send(record(1, decision())) == ["to a: ack 1"]
    assert rig.send(record(9, decision(), previous=1)) == ["to a: ack 9"]
    assert rig.send(record(12, decision(), previous=11)) == ["to a: ack 9"]
    assert rig.send(record(11, decision(), previous=9)) == ["to a: ack 12"]


@given(st.permutations(range(1, 21)), st.sets(st.integers(1, 20), max_size=10))
def test_every_record_is_settled_once_in_whatever_order(order: list[int], twice: set[int]) -> None:
    rig = greeted(burst=1000)
    for sequence in [*order, *twice]:
        rig.send(record(sequence, decision()))
    assert sorted(line.sequence for line in rig.lines()) == list(range(1, 21))
    assert rig.send(record(1, decision())) == ["to a: ack 20"]


def test_a_gateway_that_was_restarted_asks_for_a_hello() -> None:
    rig = Rig()
    assert rig.send(record(41, decision())) == ["to a: stranger"]
    assert rig.send(hello(acked=40))[:2] == ["to a: welcome 1", "to a: ack 40"]
    assert rig.send(record(41, decision())) == ["to a: ack 41"]
    # After a reset the node has another boot number: what it said before is no longer valid.
    assert rig.send(record(42, decision(), boot=2)) == ["to a: stranger"]
    assert rig.send(hello(boot=2, acked=40))[:2] == ["to a: welcome 2", "to a: ack 41"]


def test_a_new_log_begins_anew() -> None:
    rig = greeted()
    rig.send(record(1, features()))
    rig.send(record(2, decision()))
    (inquiry,) = rig.ask()
    rig.send(hello(boot=2, log=LOG + 1))
    rig.core.answered(inquiry.ticket, 1, 1.0)
    assert rig.answers() == []
    assert rig.core.waiting == 0
    assert rig.send(record(1, decision(), boot=2)) == ["to a: ack 1"]
    assert [(line.log, line.sequence) for line in rig.lines()] == [(LOG, 2), (LOG + 1, 1)]


def test_a_node_has_the_name_that_it_proved() -> None:
    rig = greeted()
    assert rig.send(hello("door-1"), node="door-2", address="b") == [
        "to b: refused: it is not the one it says"
    ]
    assert rig.send(hello("nobody"), node="nobody", address="c") == []
    assert rig.dropped == {"impostor": 1, "unknown": 1}
    assert rig.send(record(1, decision())) == ["to a: ack 1"]  # the victim notices nothing


def test_where_nothing_is_proved_only_open_names_count() -> None:
    rig = greeted()
    assert rig.send(hello("door-1"), node=None, address="b") == [
        "to b: refused: it has to prove itself"
    ]
    assert rig.send(hello("open"), node=None, address="b")[0] == "to b: welcome 1"
    assert rig.send(hello("open"), node=None, address="c") == ["to c: refused: it is here already"]
    assert rig.send(record(1, decision()), node=None, address="b") == ["to b: ack 1"]
    assert rig.send(record(1, decision()), node=None, address="c") == []
    rig.now = 40.0  # whoever had the name has fallen silent
    assert rig.send(hello("open", boot=2), node=None, address="c")[0] == "to c: welcome 2"
    assert rig.send(record(2, decision()), node=None, address="b") == []


def test_answers_wait_for_a_node_that_sleeps() -> None:
    rig = greeted()
    rig.send(record(1, features()))
    rig.send(record(2, features()))
    first, second = rig.ask()
    rig.send(bye(900))
    rig.core.answered(first.ticket, 1, 1.0)
    rig.core.failed(second.ticket, "the tail failed")
    assert rig.answers() == []
    assert rig.send(hello(boot=2), address="b")[:4] == [
        "to b: welcome 2",
        "to b: answer 1: 1",
        "to b: answer 2: failed",
        "to b: ack 2",
    ]
    # Once the node has acknowledged, it is told no more.
    assert "to b: answer 1: 1" not in rig.send(hello(boot=3, acked=2), address="b")


def test_an_answer_that_was_lost_is_told_again() -> None:
    rig = greeted()
    rig.send(record(1, features()))
    rig.core.answered(rig.ask()[0].ticket, 1, 1.0)
    assert rig.answers() == ["to a: answer 1: 1", "to a: ack 1"]  # into a connection that broke
    assert rig.send(hello(boot=2), address="b")[1] == "to b: answer 1: 1"


def test_answers_for_a_sleeper_have_a_bound() -> None:
    greeting = messages.decode(hello())
    assert isinstance(greeting, messages.Hello)
    session = Session.opened(greeting, 0.0)
    session.silent_until = 900.0
    told = [
        Told(sequence=n, status=messages.Status.ANSWERED, answer=0, score=1.0) for n in range(1, 70)
    ]
    assert [session.keep(one) for one in told].count(True) == 5
    assert session.unheard() == told[5:]


def test_what_the_edge_can_not_do_now_is_asked_again() -> None:
    rig = greeted()
    rig.send(record(1, features()))
    (inquiry,) = rig.ask()
    rig.core.retried(inquiry.ticket, 10.0, after_s=3.0)
    assert rig.core.next_timer() == 13.0
    assert rig.ask() == []
    rig.core.on_timer(12.9)
    assert rig.ask() == []
    rig.core.on_timer(13.0)
    assert rig.ask() == [inquiry]
    rig.core.failed(inquiry.ticket, "unknown bundle")
    assert rig.answers() == ["to a: answer 1: failed", "to a: ack 1"]
    assert rig.lines()[0].kind == "failed"


def test_features_that_belong_to_no_tail_fail() -> None:
    rig = greeted()
    assert rig.send(record(1, features(head=0xCCCC))) == ["to a: answer 1: failed", "to a: ack 1"]
    assert rig.send(record(2, features(b"12345"))) == ["to a: answer 2: failed", "to a: ack 2"]
    told = [line.values["reason"] for line in rig.lines()]
    assert told == ["no model here has head 0000cccc", "5 bytes of features, not 4"]
    assert rig.ask() == []


def test_damaged_records_are_settled_and_damaged_messages_dropped() -> None:
    rig = greeted()
    assert rig.send(record(1, b"\xff")) == ["to a: ack 1"]
    assert rig.lines()[0].kind == "malformed"
    assert rig.send(b"\x02") == []
    assert rig.dropped == {"malformed": 2}


def test_one_node_can_not_use_what_belongs_to_the_others() -> None:
    rig = greeted(messages_per_s=1.0, burst=5, in_flight=2)
    for sequence in range(1, 4):
        rig.send(record(sequence, features()))
    assert len(rig.ask()) == 2  # the third has to come again
    assert rig.send(record(4, decision())) != []
    assert rig.send(record(5, decision())) == []
    assert rig.send(hello("door-2"), node="door-2", address="b") != []
    assert rig.dropped == {"quota": 2}
    rig.now = 1.0
    assert rig.send(record(5, decision())) != []


def test_no_node_runs_far_ahead() -> None:
    rig = greeted(burst=10_000, in_flight=64)
    for sequence in range(2, 300):  # the first never comes
        rig.send(record(sequence, decision()))
    assert len(rig.lines()) == 64


def test_updates_come_in_pieces() -> None:
    rig = greeted()

    def want(release: int, offset: int) -> list[str]:
        return rig.send(struct.pack("<BIII", 3, 1, release, offset))

    assert want(2, 0) == ["to a: piece at 0, 1024 bytes"]
    assert want(2, 2048) == ["to a: piece at 2048, 512 bytes"]
    assert want(2, 2560) == []
    assert want(3, 0) == []
    assert len(rig.send(hello(boot=2, head=OTHER_HEAD))) == 2  # it has that head: no offer
    assert len(rig.send(hello(boot=2, head=0xCCCC))) == 2  # nobody knows what it has


def test_who_is_silent_or_struck_off_is_forgotten() -> None:
    rig = greeted()
    rig.send(record(1, features()))
    rig.core.on_timer(100.0)
    assert rig.core.sessions == 1
    rig.core.on_timer(101.0)
    assert (rig.core.sessions, rig.core.waiting) == (0, 0)
    assert rig.ask() == []
    rig.now = 200.0
    rig.send(hello())
    rig.send(bye(1000))
    rig.core.on_timer(1250.0)
    assert rig.core.sessions == 1  # it said that it would sleep so long
    rig.core.follow(Roster({"door-2": NodeEntry(public="y")}))
    assert rig.core.sessions == 0
    assert rig.send(record(1, decision())) == []
    assert repr(rig.core) == "<GatewayCore 0 sessions, 0 waiting>"


@given(st.binary(max_size=60), st.integers(0, 5))
def test_noise_costs_nobody_else_anything(data: bytes, kind: int) -> None:
    rig = greeted()
    rig.send(bytes([kind]) + data, node="door-2", address="b")
    rig.lines()
    assert rig.send(record(1, decision())) == ["to a: ack 1"]
    assert len(rig.lines()) == 1


@pytest.mark.parametrize("payload", [b"\x03" + bytes(30), b"\x04all is well"])
def test_reports_are_written_down(payload: bytes) -> None:
    rig = greeted()
    assert rig.send(record(1, payload)) == ["to a: ack 1"]
    (line,) = rig.lines()
    assert line.kind in ("telemetry", "note")
    assert "\n" not in line.to_json()
