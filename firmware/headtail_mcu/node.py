r"""The life of a node: sample, decide, keep, speak, sleep.

    IDLE --due--> JOINING --network--> CONNECTING --handshake--> TALKING --all said--> IDLE
                     \________________ failed: back off, IDLE ___________/

`step(now)` is one turn and never waits, but for the head's own work and for opening a connection;
what waits is `run`. Every sample leaves a record in the ring log, a decision that was made here or
features for the tail, and stays there until the gateway has settled it.
"""

import time

from . import messages
from .duty import CONNECT, SAMPLE
from .errors import LinkError, RefusedError
from .heads import FIRMWARE
from .incoming import Incoming
from .talk import Talk

IDLE, JOINING, CONNECTING, TALKING = "idle", "joining", "connecting", "talking"
_LONGEST_TURN_MS = 1000
_LEAST_SLEEP_MS = 200
_CONNECTING_MS = 20000
_JOINING_STEP_MS = 20
_MARK_EVERY = 16


class Node:
    """`parts`: a `parts.Parts`."""

    def __init__(self, config, parts, now):
        self._name = config["name"]
        self._deep = config["duty"]["deep_sleep"]
        self._always = config["link"]["always_on"]
        self._linger_ms = int(config["duty"]["linger_s"] * 1000)
        self._healthy_ms = int(config["healthy_s"] * 1000)
        self._board, self._radio, self._links = parts.board, parts.radio, parts.links
        self._log, self._heads, self._app = parts.log, parts.heads, parts.app
        self._duty, self._checkpoints, self._telemetry = (
            parts.duty,
            parts.checkpoints,
            parts.telemetry,
        )
        self._crashes, self._day, self._boot = parts.crashes, parts.day, parts.boot
        self._wake = parts.wake
        self._incoming = Incoming(parts.heads)
        self._link = self._talk = None
        self._since = self._moved_at = now
        self._proof = 0
        self._settled = 0
        self._told = self._unsafe = False
        self._began_at = now
        self.state = IDLE

    def run(self, ticks):
        """For good; `ticks.now()` is the time."""
        while True:
            wait = self.step(ticks.now())
            if self._link is not None:
                self._listen(wait, ticks)
            elif self._deep and wait > _LEAST_SLEEP_MS and self.state == IDLE:
                self._sleep(wait, ticks.now())
            else:
                self._board.sleep_ms(wait)

    def step(self, now):
        """One turn; milliseconds for which nothing is due, a second at most unless it sleeps."""
        waiting = 0 if self._always and self._talk is not None else self._log.waiting
        what, wait = self._duty.due(now, waiting)
        if what == SAMPLE:
            self._sample(now)
        self._checkpoints.passed("sample", now)
        try:
            self._advance(now, what == CONNECT)
        except RefusedError as error:
            self._fail(error, now, refused=True)
        except LinkError as error:
            self._fail(error, now)
        if now - self._began_at >= self._healthy_ms:
            self._crashes.healthy()
        self._look_after(now)
        if what == SAMPLE:
            return 0
        if self.state in (JOINING, CONNECTING):
            return _JOINING_STEP_MS
        if self.state == TALKING:
            wait = self._duty.until_sample(now)
        return wait if self._deep and self.state == IDLE else min(wait, _LONGEST_TURN_MS)

    def _look_after(self, now):
        """Feed the watchdog, or, where a part is stuck, begin anew without waiting for it."""
        stuck = self._checkpoints.stuck(now)
        if stuck is None:
            self._board.feed()
            return
        self._flush()
        self._board.say(f"no progress of {stuck} for too long")
        self._board.restart()

    def _sample(self, now):
        self._duty.sampled(now)
        if not self._app.fill(self._heads.head, self._heads.front):
            return
        began = time.ticks_us()
        payload, answer, score = self._heads.decide()
        self._telemetry.inference_us = time.ticks_diff(time.ticks_us(), began)
        self._telemetry.look()
        sequence = self._keep(payload, now)
        if not self._proof:
            self._proof = sequence
        on_trial = self._heads.slots.tries is not None
        if (answer is not None and self._app.decided(answer, score, "board")) or on_trial:
            self._duty.urgent()

    def _keep(self, payload, now):
        self._unsafe = True
        return self._log.append(self._day.seconds(now), payload)

    def _flush(self):
        self._log.flush()
        self._unsafe = False

    def _advance(self, now, wanted):
        """What the link asks for at this moment."""
        if self.state == IDLE:
            if wanted or (self._always and self._duty.may_connect(now)):
                self._radio.start()
                self._enter(JOINING, now)
            elif not self._duty.failures:
                self._checkpoints.passed("link", now)
        if self.state == JOINING and self._radio.ready():
            self._link = self._links.open()
            self._enter(CONNECTING, now)
        if self.state == CONNECTING and self._link.ready:
            hello = (FIRMWARE, self._heads.id, self._heads.release, self._log.id, self._wake)
            self._talk = Talk(self._boot, self._log, hello, self._name, now)
            self._enter(TALKING, now)
        if self.state in (JOINING, CONNECTING) and now - self._since >= _CONNECTING_MS:
            raise LinkError(f"no {self.state} within {_CONNECTING_MS} ms")
        if self.state == TALKING:
            self._converse(now, wanted)

    def _converse(self, now, wanted):
        self._talk.on_timer(now)
        if self._unsafe:
            # Nothing is sent that a power cut could take back and number anew.
            self._flush()
        message = self._talk.to_send(now)
        while message is not None:
            self._link.send(message)
            message = self._talk.to_send(now)
        if self._talk.acked > self._settled:
            self._settled, self._moved_at = self._talk.acked, now
        if self._talk.idle:
            if not self._always or wanted or self._log.waiting >= _MARK_EVERY:
                self._log.acknowledge(self._talk.acked)
            if self._proof and self._talk.acked >= self._proof:
                self._heads.slots.confirm()
            if not self._told:
                if wanted:
                    self._report(now)
            elif not self._always:
                self._duty.reported(now)
                self._part(now, self._duty.silence_ms(now))
            elif wanted:
                self._duty.reported(now)
                self._told = False
        elif not self._always and now - self._moved_at >= self._linger_ms:
            raise LinkError("the gateway could not settle all in time")

    def _listen(self, wait, ticks):
        """Up to so long, or until something came."""
        try:
            if self._talk is not None:
                timer = self._talk.next_timer(ticks.now())
                wait = wait if timer is None else min(wait, timer)
            data = self._link.poll(min(wait, _LONGEST_TURN_MS))
            if data is not None and self._talk is not None:
                self._checkpoints.passed("link", ticks.now())
                heard = self._talk.receive(data, ticks.now())
                if heard is not None:
                    self._heard(heard[0], heard[1], ticks.now())
        except RefusedError as error:
            self._fail(error, ticks.now(), refused=True)
        except LinkError as error:
            self._fail(error, ticks.now())

    def _heard(self, kind, fields, now):
        if kind == messages.WELCOME:
            self._day.set(fields[0], fields[1], now)
            self._report(now)
        elif kind == messages.ANSWER:
            _, status, answer, score = fields
            if status == messages.ANSWERED:
                self._app.decided(answer, score, "edge")
        elif kind == messages.OFFER:
            self._incoming.offered(fields[0], fields[1], self._talk)
        elif kind == messages.PIECE:
            self._moved_at = now
            outcome = self._incoming.piece(fields, self._talk)
            if outcome is not None:
                self._keep(messages.note(outcome[:100]), now)
            if self._incoming.complete:
                self._restart(now)

    def _report(self, now):
        """How the node is; once at the beginning of a conversation, then at each interval."""
        self._keep(
            self._telemetry.payload(
                now,
                self._log.lost,
                self._crashes.count,
                self._duty.failures,
                self._heads.release,
                self._radio.rssi(),
            ),
            now,
        )
        self._told = True

    def _restart(self, now):
        self._log.acknowledge(self._talk.acked)
        self._flush()
        self._crashes.healthy()
        self._part(now)
        self._board.restart()

    def _fail(self, error, now, refused=False):
        """No link, or no more: what was settled is settled, the rest waits for the next try."""
        if self._talk is not None:
            self._log.acknowledge(self._talk.acked)
        self._flush()
        self._part(now)
        wait = self._duty.failed(now, refused)
        self._board.say(f"{error}; again in {wait} ms")

    def _part(self, now, silence_ms=None):
        """With `silence_ms` the gateway is told for how long."""
        if silence_ms is not None:
            try:
                self._link.send(messages.bye(self._boot, silence_ms // 1000))
            except LinkError as error:
                self._board.say(f"no goodbye ({error})")
        if self._link is not None:
            self._link.close()
        self._incoming.abandon()
        self._link = self._talk = None
        if not self._always:
            self._radio.stop()
        self._enter(IDLE, now)

    def _enter(self, state, now):
        self.state, self._since, self._moved_at = state, now, now

    def _sleep(self, wait, now):
        self._flush()
        self._log.close()
        self._crashes.healthy()
        self._board.keep(self._day.pack(now, wait) + self._duty.pack(now, wait))
        self._board.deep_sleep(wait)
