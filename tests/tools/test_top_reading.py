from headtail.top.reading import CloudReading, DeviceReading, EdgeReading, Unreachable, read
from headtail.top.samples import Samples
from headtail.top.scrape import Address, Scrape

ADDRESS = Address(host="cam-1", port=9102)
DEVICE = """
headtail_device_frames_total{{outcome="edge"}} {edge}
headtail_device_frames_total{{outcome="degraded"}} 10
headtail_device_message_bytes_total{{direction="up"}} {up}
headtail_device_message_bytes_total{{direction="down"}} 10
headtail_device_placed_frames_total{{way="L7/q8",reason="best"}} {edge}
headtail_device_placed_frames_total{{way="local",reason="best"}} 0
headtail_device_latency_seconds_bucket{{outcome="edge",le="0.1"}} {edge}
headtail_device_latency_seconds_bucket{{outcome="edge",le="+Inf"}} {edge}
headtail_device_edge_ready 1
headtail_device_in_flight 2
headtail_device_spool_frames 0
headtail_device_late_answers 0
headtail_device_link_rtt_seconds 0.02
headtail_device_link_goodput_bytes_per_second NaN
"""
EDGE = """
headtail_edge_sessions 3
headtail_edge_bundles 1
headtail_edge_waiting 4
headtail_edge_running 2
headtail_edge_requests_total{{outcome="answered"}} {answered}
headtail_edge_requests_total{{outcome="busy"}} 1
headtail_edge_batch_size_sum {answered}
headtail_edge_batch_size_count {batches}
headtail_edge_device_requests_total{{device="cam-1"}} {answered}
"""


def look(text: str, at: float) -> Scrape:
    return Scrape(address=ADDRESS, at=at, samples=Samples.parse(text))


def device(edge: int, up: int, at: float) -> Scrape:
    return look(DEVICE.format(edge=edge, up=up), at)


def test_rates_are_of_the_time_between() -> None:
    reading = read(device(140, 9000, 14.0), device(100, 5000, 10.0))
    assert isinstance(reading, DeviceReading)
    assert reading.target == "cam-1:9102"
    assert reading.frames_per_s == 10.0
    assert reading.up_bytes_s == 1000.0
    assert reading.outcomes == {"edge": 140, "degraded": 10}
    assert reading.ways == {"L7/q8": 1.0}
    assert reading.edge_ready
    assert reading.rtt_s == 0.02
    assert reading.goodput_bytes_s is None
    assert reading.loss is None
    assert reading.latency_p50_s == 0.05


def test_without_an_earlier_look_there_are_no_rates() -> None:
    reading = read(device(140, 9000, 14.0), None)
    assert isinstance(reading, DeviceReading)
    assert reading.frames_per_s is None
    assert reading.up_bytes_s is None
    assert reading.latency_p50_s == 0.05


def test_a_daemon_that_began_anew_counts_from_nothing() -> None:
    reading = read(device(20, 100, 12.0), device(100, 5000, 10.0))
    assert isinstance(reading, DeviceReading)
    assert reading.frames_per_s == 15.0
    assert reading.up_bytes_s == 50.0


def test_an_edge_and_who_asks_it() -> None:
    reading = read(
        look(EDGE.format(answered=30, batches=10), 12.0),
        look(EDGE.format(answered=10, batches=5), 10.0),
    )
    assert isinstance(reading, EdgeReading)
    assert reading.sessions == 3
    assert reading.requests_per_s == {"answered": 10.0, "busy": 0.0}
    assert reading.batch_mean == 4.0
    assert reading.devices == {"cam-1": 10.0}
    assert reading.queue_s is None


def test_a_cloud() -> None:
    reading = read(look("headtail_cloud_requests_here 2\nheadtail_cloud_kv_usage 0.5", 1.0), None)
    assert isinstance(reading, CloudReading)
    assert (reading.here, reading.kv_usage) == (2, 0.5)


def test_what_can_not_be_read_says_why() -> None:
    silent = Scrape(address=ADDRESS, at=1.0, samples=None, problem="Connection refused")
    assert read(silent, None) == Unreachable(target="cam-1:9102", problem="Connection refused")
    other = read(look("node_load1 3", 1.0), None)
    assert isinstance(other, Unreachable)
    assert "no device, edge or cloud" in other.problem
