"""Verdicts on disk: kept, believed only when intact and ours, never a reason to fail."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from spfgen import folder as folder_module
from spfgen.facts import answers, prove
from spfgen.facts.answers import Verdict, key, load, save
from spfgen.facts.formula import Compare, Num, Var
from spfgen.facts.prove import Facts, implied
from spfgen.run import cache

SAT = Verdict("sat", (("p'", -3), ("floor((n + 1)/2)", 10**20)), (("f(p + 1)", 0),), 0.25)
KEY = key("a script")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    prove._verdict.cache_clear()
    return tmp_path / "kept" / "answers"


def ask(number: int = 7) -> prove.Answer:
    """A question that this process has forgotten."""
    prove._verdict.cache_clear()
    return implied([Compare("=", Var("p"), Num(number))], Facts((), {}), Compare("<", Var("p"), Num(5)))


def sealed(data: bytes, key: str) -> bytes:
    """With the right checksum."""
    return folder_module._checksum(key, data) + b"\n" + data


@pytest.mark.parametrize("verdict", [SAT, Verdict("unsat", seconds=1.5), Verdict("unknown")])
def test_kept(folder, verdict) -> None:
    assert load(KEY) is None
    save(KEY, verdict)
    assert load(KEY) == verdict
    assert [file.name for file in folder.iterdir()] == [KEY], "and nothing else is left"
    save(KEY, SAT)
    assert load(KEY) == SAT


def test_for_the_owner_only(folder) -> None:
    save(KEY, SAT)
    assert {stat.S_IMODE(f.stat().st_mode) for f in (folder.parent, folder)} == {0o700}
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600


def test_key_depends_on_every_part_and_on_the_borders_between_them() -> None:
    assert len({key(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("ab", "d"), ()]}) == 6


@pytest.mark.parametrize("changed", ["RESOURCES", "SEED", "z3_version"])
def test_another_budget_seed_or_version_is_another_question(monkeypatch, changed) -> None:
    assert not ask().cached
    assert ask().cached
    monkeypatch.setattr(prove, changed, (lambda: "z3 of tomorrow") if changed == "z3_version" else 12345)
    assert not ask().cached


def test_another_format_is_another_entry(monkeypatch) -> None:
    save(KEY, SAT)
    monkeypatch.setattr(answers, "FORMAT", "2")
    assert key("a script") != KEY


def test_all_kinds_of_answers_are_kept(monkeypatch) -> None:
    first = [ask(7), ask(3)]
    monkeypatch.setattr(prove, "_z3", lambda: pytest.fail("Z3 is asked"))
    second = [ask(7), ask(3)]
    assert [a.word for a in first] == ["refuted", "proved"]
    for one, two in zip(first, second, strict=True):
        assert (one.cached, two.cached) == (False, True)
        assert (one.word, one.model, one.values, one.seconds) == (two.word, two.model, two.values, two.seconds)


def test_unknown_is_kept_unless_memory_ran_out(monkeypatch) -> None:
    for keep in (False, True):
        monkeypatch.setattr(prove, "_solved", lambda *_, keep=keep: (Verdict("unknown"), keep))
        assert not ask().cached
        assert ask().cached == keep


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-2],
        lambda data: data[1:],
        lambda data: data.replace(b'"sat"', b'"unsat"'),
        lambda data: data + b"x",
        lambda data: b"\xff" * 100,
        lambda data: b"[]\n[]\n",
        lambda data: sealed(b"", KEY),
        lambda data: sealed(b"[1]", KEY),
        lambda data: sealed(b"7", KEY),
        lambda data: sealed(b'["maybe", [], [], 0]', KEY),
        lambda data: sealed(b'["sat", 1, [], 0]', KEY),
        lambda data: sealed(b'["sat", [["a", "b"]], [], 0]', KEY),
        lambda data: sealed(b'["unsat", [], [], 0]', key("another")),
    ],
)
def test_damaged_entries_are_ignored_and_replaced(folder, damage) -> None:
    save(KEY, SAT)
    (folder / KEY).write_bytes(damage((folder / KEY).read_bytes()))
    assert load(KEY) is None
    save(KEY, SAT)
    assert load(KEY) == SAT


def test_a_damaged_answer_is_asked_anew(folder) -> None:
    ask()
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(good.replace(b'"sat"', b'"unsat"'))
    answer = ask()
    assert (answer.word, answer.cached) == ("refuted", False)
    assert entry.read_bytes().split(b", ")[:-1][0].endswith(b'["sat"')
    assert ask().cached


def assert_works_without(capfd) -> None:
    """Z3 is asked each time, and nobody hears of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [ask().word, ask().cached] == ["refuted", False]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("setting", ["off", " OFF ", "nonsense"])
def test_switched_off(folder, monkeypatch, capfd, setting) -> None:
    monkeypatch.setenv("SPFGEN_CACHE", setting)
    assert_works_without(capfd)
    assert not folder.exists()
    implied([], Facts((), {}), Compare("=", Num(1), Num(1)))
    assert implied([], Facts((), {}), Compare("=", Num(1), Num(1))).cached, "within the process it is remembered"


def test_switched_off_after_it_was_on(monkeypatch) -> None:
    ask()
    monkeypatch.setenv("SPFGEN_CACHE", "off")
    assert not ask().cached
    monkeypatch.setenv("SPFGEN_CACHE", "on")
    assert ask().cached


def test_folder_that_cannot_be_made(tmp_path, monkeypatch, capfd) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "file" / "kept"))
    assert_works_without(capfd)


def test_read_only_folder(monkeypatch, capfd) -> None:
    monkeypatch.setenv("SPFGEN_CACHE_DIR", "/proc/self")
    assert_works_without(capfd)


def test_no_home(monkeypatch, capfd) -> None:
    monkeypatch.setattr(folder_module, "wanted_folder", lambda: Path("~nobody-of-that-name").expanduser())
    assert_works_without(capfd)


def test_a_file_in_place_of_the_folder(folder, capfd) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_text("")
    assert_works_without(capfd)


def test_a_folder_in_place_of_an_entry(folder, capfd) -> None:
    ask()
    (entry,) = folder.iterdir()
    entry.unlink()
    (entry / "x").mkdir(parents=True)
    assert_works_without(capfd)
    assert [file.name for file in folder.iterdir()] == [entry.name], "no temporary file is left"


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_folder_that_everybody_may_write_is_not_believed(folder, capfd, which) -> None:
    ask()
    (folder if which == "inner" else folder.parent).chmod(0o777)
    assert_works_without(capfd)


def test_folder_of_somebody_else_is_not_believed(folder, monkeypatch, capfd) -> None:
    ask()
    if os.geteuid() == 0:  # what is root's is trusted
        os.chown(folder, 54321, -1)
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert_works_without(capfd)


def test_clear_of_the_cache_takes_answers_along(folder) -> None:
    ask()
    (folder / f"{KEY}.12-34.tmp").write_text("left by a killed process")
    (folder / "mine").write_text("")
    cache.clear()
    assert [file.name for file in folder.iterdir()] == ["mine"]
    (folder / "mine").unlink()
    ask()
    cache.clear()
    assert not folder.exists()
    cache.clear()


WORKER = """
import sys
from spfgen.facts.answers import Verdict, key, load, save
own = int(sys.argv[1])
for turn in range(300):
    name = key(str(turn % 10))
    found = load(name)
    assert found is None or found.model[0][0] == str(turn % 10) * 1000, found
    save(name, Verdict("sat", ((str(turn % 10) * 1000, own),)))
"""


def test_many_processes_at_once(folder) -> None:
    """Nobody sees half an entry."""
    command = [sys.executable, "-c", WORKER]
    workers = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(4)]
    for worker in workers:
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
    assert len(list(folder.iterdir())) == 10
    assert all(load(key(str(n))) is not None for n in range(10))


def test_lookup_is_quick() -> None:
    """Far below the millisecond that a question to Z3 takes at least."""
    from time import perf_counter

    save(KEY, SAT)
    times = []
    for _ in range(50):
        start = perf_counter()
        load(KEY)
        times.append(perf_counter() - start)
    assert sorted(times)[25] < 1e-3
