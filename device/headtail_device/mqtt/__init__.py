"""MQTT, where frames come from or go to. Needs the extra `mqtt`."""

from headtail_device.mqtt.address import BadMqttAddressError, MqttAddress
from headtail_device.mqtt.link import MqttError, MqttLink

__all__ = ["BadMqttAddressError", "MqttAddress", "MqttError", "MqttLink"]
