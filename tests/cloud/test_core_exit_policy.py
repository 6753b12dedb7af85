import pytest

from headtail_cloud.core.exit_policy import AgreeingExit, ConfidentExit, Evidence, NeverExit


def probes(policy: AgreeingExit, *answers: str | None, confidence: float = 1.0) -> list[bool]:
    return [policy.observe(Evidence(confidence=confidence, answer=answer)) for answer in answers]


def test_never_stops() -> None:
    assert not NeverExit().observe(Evidence(confidence=1.0))


def test_stops_when_sure_enough() -> None:
    policy = ConfidentExit(0.8)
    assert not policy.observe(Evidence(confidence=0.79))
    assert policy.observe(Evidence(confidence=0.8))


def test_stops_when_probes_agree() -> None:
    assert probes(AgreeingExit(3), "7", "7", "7") == [False, False, True]


def test_disagreement_begins_the_count_again() -> None:
    assert probes(AgreeingExit(3), "7", "7", "8", "8", "7", "7", "7") == [False] * 6 + [True]


def test_a_probe_without_an_answer_begins_the_count_again() -> None:
    assert probes(AgreeingExit(2), "7", None, "7", "7") == [False, False, False, True]


def test_unsure_probes_do_not_count() -> None:
    policy = AgreeingExit(2, least_confidence=0.5)
    assert probes(policy, "7", "7", "7", confidence=0.4) == [False] * 3


def test_alternating_answers_never_stop() -> None:
    assert not any(probes(AgreeingExit(2), *"7878787878"))


def test_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        ConfidentExit(1.5)
    with pytest.raises(ValueError, match="agrees with nothing"):
        AgreeingExit(1)
