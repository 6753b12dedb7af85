import os
from pathlib import Path

import numpy as np
import pytest

from edge_doubles import crossing, encoded
from headtail.load.bare import bare_rate
from headtail.load.payload import Payload
from headtail.load.rivals.tail import CODEC, Tail, best_class
from headtail.load.served import served
from headtail.load.usage import usage
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    write_specimen(tmp_path / "bundle")
    return open_bundle(tmp_path / "bundle")


def payload(bundle: Bundle) -> Payload:
    cut = bundle.manifest.default_cut
    info, buffer = encoded(bundle, cut, crossing(bundle, cut), CODEC)
    return Payload(digest=bundle.digest, cut=cut, tensors=(info,), buffers=(buffer,))


def test_a_rival_computes_what_the_edge_computes(bundle: Bundle) -> None:
    sent = payload(bundle)
    decoded = sent.tensor(bundle)
    rival = Tail(bundle.path, sent.cut)
    np.testing.assert_array_equal(rival.decode(bytes(sent.buffers[0])), decoded)
    entry = bundle.tail(sent.cut)
    ours = bundle.open_stage(entry).run({bundle.cut(sent.cut).tensor.name: decoded})
    np.testing.assert_array_equal(rival.infer(decoded), next(iter(ours.values())))


def test_the_best_class_is_the_largest_score() -> None:
    assert best_class(np.array([0.25, 0.5, 0.125])) == {"class": 1, "score": 0.5}


def test_the_bare_loop_counts_every_request_of_a_batch(bundle: Bundle) -> None:
    rate = bare_rate(bundle, payload(bundle), batch=2, workers=1, seconds=0.05)
    assert rate > 0


def test_percentiles_are_of_the_latencies() -> None:
    run = served([n / 1000 for n in range(1, 101)], seconds=2.0, batch=3.0)
    assert (run.rate, run.batch) == (50.0, 3.0)
    assert run.p50_ms == pytest.approx(50.5)
    assert run.p99_ms == pytest.approx(99.01)


def test_a_run_without_answers_is_an_error() -> None:
    with pytest.raises(ValueError, match="not one"):
        served([], seconds=1.0)


def test_the_kernel_tells_what_this_process_took() -> None:
    before = usage(os.getpid())
    sum(n * n for n in range(2_000_000))
    after = usage(os.getpid())
    assert after.cpu_s > before.cpu_s
    assert after.memory_mb > 1
    assert after.processes >= 1
