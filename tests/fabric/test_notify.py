import io
import json
import logging
import os
import signal
import socket
from pathlib import Path

import pytest

from headtail_fabric.notify import Notifier, StopSignal, announce


@pytest.mark.system
@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_of_the_life_of_a_daemon(tmp_path: Path, abstract: bool) -> None:
    path = f"\0headtail-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(10)
        notifier = Notifier.from_environment({"NOTIFY_SOCKET": path.replace("\0", "@")})
        notifier.ready()
        assert systemd.recv(4096) == b"READY=1"
        notifier.status("serving\nREADY=0 to\x00 all")
        assert systemd.recv(4096) == b"STATUS=serving READY=0 to  all"
        notifier.stopping("x" * 1000)
        assert systemd.recv(4096) == b"STOPPING=1\nSTATUS=" + b"x" * 512


def test_without_systemd_there_is_silence(caplog: pytest.LogCaptureFixture) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": ""}):
        notifier = Notifier.from_environment(environment)
        notifier.ready("up")
        notifier.status("here")
        notifier.stopping()
    assert caplog.records == []


def test_a_systemd_that_is_gone_is_logged_and_borne(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        Notifier(str(tmp_path / "nobody")).ready()
        Notifier("/" + "x" * 300).ready()
        Notifier("vsock:2:1234").ready()
    assert [each.getMessage() for each in caplog.records] == ["systemd not notified"] * 3


def test_an_announcement_is_one_line_at_once() -> None:
    class Stream(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    stream = Stream()
    announce(stream, event="ready", endpoint="tcp://127.0.0.1:5555", note="a\nb")
    assert stream.flushed.count("\n") == 1
    assert json.loads(stream.flushed) == {
        "event": "ready",
        "endpoint": "tcp://127.0.0.1:5555",
        "note": "a\nb",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    with StopSignal() as stop:
        assert not stop.event.is_set()
        signal.raise_signal(number)
        assert stop.event.wait(10)


def test_the_second_interrupt_interrupts() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert stop.event.wait(10)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_before_come_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopSignal() as stop:
        stop.event.set()
        assert signal.getsignal(signal.SIGINT) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
