"""MQTT with a real broker: frames come in by one topic, answers go out by another."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.ledger import Outcome
from headtail_device.mqtt import MqttAddress, MqttError, MqttLink
from headtail_fabric import config
from headtail_models.bundle.specimen import write_specimen
from mqtt_broker import BrokerProcess

pytestmark = pytest.mark.system


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running:
        yield running


def link(broker: BrokerProcess, topic: str, *, subscribe: bool) -> MqttLink:
    address = MqttAddress.parse(f"mqtt://127.0.0.1:{broker.port}/{topic}", wildcards=subscribe)
    return MqttLink(address, subscribe=subscribe)


def test_pictures_come_and_answers_go(broker: BrokerProcess, tmp_path: Path) -> None:
    write_specimen(tmp_path / "bundle")
    settings = config.load(
        DeviceConfig,
        None,
        {
            "bundle": str(tmp_path / "bundle"),
            "source": f"mqtt://127.0.0.1:{broker.port}/cameras/%23",
            "mode": "local",
            "late": "answer",
            "output.mqtt": f"mqtt://127.0.0.1:{broker.port}/answers",
        },
    )
    stop = threading.Event()
    done = []
    with link(broker, "answers", subscribe=True) as answers:
        device = threading.Thread(target=lambda: done.append(run_device(settings, stop=stop)))
        device.start()
        picture = np.full((32, 32, 3), 90, dtype=np.uint8)
        encoded = cv2.imencode(".jpg", picture)[1].tobytes()
        lines: list[dict[str, object]] = []
        with link(broker, "cameras/door", subscribe=False) as camera:
            for message in (encoded, b"no picture", encoded):
                while len(lines) == 0:
                    # Until the device has subscribed, nobody hears what is published.
                    camera.publish([message], 5.0)
                    if (line := answers.take(0.5)) is not None:
                        lines.append(json.loads(line))
                camera.publish([message], 5.0)
                while (line := answers.take(1.0)) is not None:
                    lines.append(json.loads(line))
        stop.set()
        device.join()
    outcomes = [line["outcome"] for line in lines]
    assert set(outcomes) == {"local", "unreadable"}
    assert [line["frame"] for line in lines] == list(range(len(lines)))
    assert done[0].totals.outcomes.get(Outcome.UNREADABLE) == outcomes.count("unreadable")


def test_a_link_comes_back_after_the_broker(broker: BrokerProcess) -> None:
    with link(broker, "a", subscribe=True) as heard:
        broker.kill()
        broker.start()
        with link(broker, "a", subscribe=False) as told:
            for _ in range(40):
                told.publish([b"again"], 5.0)
                if heard.take(0.5) is not None:
                    break
            else:
                pytest.fail("the subscription did not come back")


def test_publishing_without_a_broker_is_an_error(broker: BrokerProcess) -> None:
    with link(broker, "a", subscribe=False) as told:
        broker.kill()
        with pytest.raises(MqttError, match="does not take messages"):
            told.publish([b"lost"], 0.3)
