import io
import json
from pathlib import Path

from rich.console import Console

from headtail.bench.report import Report


def shown(report: Report) -> str:
    console = Console(file=io.StringIO(), width=120)
    report.show(console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def sample() -> Report:
    report = Report("wire", {"curve": "on", "window": 16})
    report.figure("messages_per_s", 1234.5)
    report.target("ratio", 0.9, ">=", 0.8)
    report.target("drift_ms", 4.0, "<=", 3.0)
    report.table("Rates", ["size", "rate"], [["1k", 1234.5], ["64k", None]])
    report.note("Taken on a quiet machine.")
    return report


def test_the_file_has_the_agreed_form(tmp_path: Path) -> None:
    path = tmp_path / "wire.json"
    sample().write(path)
    document = json.loads(path.read_text())
    assert set(document) == {"bench", "version", "machine", "settings", "figures", "targets"}
    assert document["bench"] == "wire"
    assert document["settings"] == {"curve": "on", "window": 16}
    assert document["figures"] == {"messages_per_s": 1234.5, "ratio": 0.9, "drift_ms": 4.0}
    assert document["targets"] == [
        {"name": "ratio", "figure": 0.9, "op": ">=", "target": 0.8, "met": True},
        {"name": "drift_ms", "figure": 4.0, "op": "<=", "target": 3.0, "met": False},
    ]
    assert document["machine"]["cores"] >= 1


def test_what_is_printed_says_settings_targets_and_notes() -> None:
    text = shown(sample())
    assert "curve=on, window=16" in text
    assert "ratio: 0.9 (target >= 0.8) met" in text
    assert "drift_ms: 4 (target <= 3) MISSED" in text
    assert "Taken on a quiet machine." in text


def test_a_skipped_benchmark_says_why(tmp_path: Path) -> None:
    report = Report("accuracy", {})
    report.skip("no photos here")
    assert "skipped: no photos here" in shown(report)
    report.write(tmp_path / "accuracy.json")
    assert json.loads((tmp_path / "accuracy.json").read_text())["skipped"] == "no photos here"
