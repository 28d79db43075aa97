"""The report shows what records say, losses and failures too; what is kept of a record is enough for it."""

from __future__ import annotations

import json

import pytest

from experiments import report


def entry(name, nanoseconds, ours=100.0, **more):
    timed = {"median_ns": nanoseconds, "time_over_ours": nanoseconds / ours, "share_of_roofline": 50 / nanoseconds}
    timed |= {"samples_ns": [nanoseconds] * 4, "disturbed_samples": 1}
    return {"name": name, "setting": "", "best_setting": True, "status": "right", "reason": "", **timed, **more}


def absent(name, status, reason):
    return {"name": name, "setting": "", "best_setting": True, "status": status, "reason": reason}


def record(cases):
    machine = {"date": "2026-01-02T03:04:05", "cpu": "A CPU", "cores": 2, "versions": {"cc": "cc 1"}}
    own = {"experiment": "spmv", "quick": True, "threads": 2, "rounds": 4, "machine": machine}
    whole = [{"label": n, "threads": 2, "limit_seconds": None, "contestants": c} for n, c in cases.items()]
    return {**own, "cases": whole}


CASES = {
    "won": [entry("ours", 100.0), entry("peer", 400.0), entry("taco", 200.0), entry("spfgen-hash", 50.0)],
    "lost": [entry("ours", 100.0), entry("peer", 50.0), absent("taco", "missing", "not installed")],
    "broken": [absent("ours", "WRONG", "2 of 3 elements differ"), entry("peer", 50.0, time_over_ours=None)],
}


def test_figures(tmp_path) -> None:
    (tmp_path / "spmv.json").write_text(json.dumps(record(CASES)))
    (tmp_path / "old.json").write_text(json.dumps({"experiment": "old"}))
    summaries = report.updated(tmp_path, {"spmm": {"cases": []}})
    assert list(summaries) == ["spmm", "spmv"]
    found = report.best_peers(summaries["spmv"])
    assert found == [(2.0, "taco", "won"), (0.5, "peer", "lost")]
    text = report.results({"spmv": summaries["spmv"]}, "")
    assert "| spmv | 3 | 2.00 | 1.00 | 0.50 (peer; lost) | 1 of 2 | 50% |" in text
    assert "| peer | 1.41 | 0.50 (lost) | 4.00 | 1 of 2 |" in text
    assert "| lost | 0.1 | 50% | peer | 0.50 (slower) |" in text
    assert "| broken | WRONG: 2 of 3 elements differ | | | |" in text
    assert "taco (missing: not installed) in 1" in text
    assert ".svg" not in text
    assert "(p/spmv.svg)" in report.results({"spmv": summaries["spmv"]}, "p/", {"spmv"})
    assert "disturbed by other processes: 25%" in text


def test_layouts_chosen_beside_an_inspector() -> None:
    both = [entry("ours-chosen", 50.0, remark="dia, chosen in 1 s"), entry("mkl-ie", 80.0, remark="inspected in 2 ms")]
    text = report.chapter("spmv", report.summarised(record({"a": [entry("ours", 100.0), *both]})), "")
    assert "geometric mean 1.60, least 1.60" in text
    assert "| a | 1.60 | 0.80 | dia, chosen in 1 s | inspected in 2 ms |" in text
    assert "ours-chosen" not in report.overview({"spmv": report.summarised(record(CASES))})


def test_peers_that_are_not_installed() -> None:
    gone = {
        "a case": [entry("ours", 100.0), absent("mkl", "missing", "pip install mkl"), absent("taco", "failed", "x")]
    }
    summaries = {"spmv": report.summarised(record(CASES)), "spmm": report.summarised(record(gone))}
    assert report.absent(summaries) == {"pip install mkl": ["mkl"]}
    assert "Paper's headline: none" in report.chapter("spmm", summaries["spmm"], "")
    assert "Paper's headline: Zhao" in report.chapter("spmv", summaries["spmv"], "")


def test_limits() -> None:
    made = record({"quick": [entry("ours", 100.0)]})
    made["cases"][0]["limit_seconds"] = 400e-9
    summary = report.summarised(made)
    assert report.best_peers(summary) == []
    assert "ours takes 25% of it" in report.chapter("spmv", summary, "")
    assert "0.25 of the paper's time" in report.overview({"spmv": summary})


def test_files(tmp_path, capsys) -> None:
    (tmp_path / "spmv.json").write_text(json.dumps(record(CASES)))
    assert report.main(tmp_path, tmp_path / "to") == 0
    written = (tmp_path / "to" / "RESULTS.md").read_text()
    assert written.startswith("# Results")
    assert "took no part" not in capsys.readouterr().err
    again = report.known(tmp_path / "to" / "results" / "summary.json")
    drawn = report.plots_in(tmp_path / "to" / "results")
    assert report.HEADING + report.results(again, "results/", drawn) == written
    (tmp_path / "spmv.json").unlink()
    report.main(tmp_path, tmp_path / "to")  # what was recorded before stays
    assert (tmp_path / "to" / "RESULTS.md").read_text() == written


def test_no_records(tmp_path) -> None:
    assert "No experiment" in report.results({}, "")
    assert report.known(tmp_path / "none.json") == {}


def test_plots() -> None:
    pytest.importorskip("matplotlib")
    summaries = {"spmv": report.summarised(record(CASES))}
    found = report.plots(summaries)
    assert set(found) == {"overview", "spmv"}
    assert found == report.plots(summaries)
    assert all("<svg" in text for text in found.values())


def test_what_is_kept_is_what_is_shown() -> None:
    """RESULTS.md in the repository is that of its summary."""
    path = report.HERE / "RESULTS.md"
    assert path.read_text(encoding="utf-8") == report.HEADING + report.results(
        report.known(), "results/", report.plots_in()
    )


def test_when_the_records_were_made() -> None:
    one, two = report.summarised(record(CASES)), report.summarised(record(CASES))
    one |= {"date": "2026-01-05", "quick": True}
    two |= {"date": "2026-01-02", "quick": True}
    both = report.overview({"a": one, "b": two})
    assert "Recorded 2026-01-02 to 2026-01-05, at the sizes of `--quick`, on A CPU." in both
    both = report.overview({"a": one, "b": {**two, "date": "2026-01-05", "quick": False}})
    assert "Recorded 2026-01-05, at full sizes, but for a, which are `--quick`, on A CPU." in both
    elsewhere = report.overview({"a": one, "b": one, "c": {**one, "cpu": "Another"}})
    assert "Recorded 2026-01-05, at the sizes of `--quick`, on A CPU; c on Another." in elsewhere
