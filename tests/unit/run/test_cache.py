import json
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from spfgen.errors import InternalError, ToolError, UsageError
from spfgen.run import cache

CONTENT = b"not really a shared object"

WORKER = """
import os, sys, time
from pathlib import Path
from spfgen.run import cache

def make(target):
    with open(sys.argv[2], "a") as log:
        log.write("x")
    time.sleep(0.3)
    target.write_bytes(b"made")

while time.time() < float(sys.argv[3]):
    pass
assert cache.fetch(sys.argv[1], make).read_bytes() == b"made"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    cache._warn_once.cache_clear()
    return tmp_path / "kernels"


class Maker:
    """A make that counts its calls."""

    def __init__(self, content=CONTENT):
        self.content = content
        self.calls = 0

    def __call__(self, target):
        self.calls += 1
        target.write_bytes(self.content)


def test_key_depends_on_every_part_and_on_the_borders_between_them():
    keys = {cache.key(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("ab", "d"), ()]}
    assert len(keys) == 6
    assert cache.key("ä", "b") == cache.key("ä", "b")
    assert all(len(key) == 64 and set(key) <= set("0123456789abcdef") for key in keys)


def test_second_fetch_does_not_make(folder):
    make = Maker()
    first = cache.fetch(cache.key("a"), make)
    second = cache.fetch(cache.key("a"), make)
    assert first == second == folder / f"{cache.key('a')}.so"
    assert first.read_bytes() == CONTENT
    assert make.calls == 1
    cache.fetch(cache.key("b"), make)
    assert make.calls == 2


def test_folder_and_files_are_for_the_owner_only(folder):
    entry = cache.fetch(cache.key("a"), Maker())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) & 0o077 == 0


def replaced_by_a_folder(file):
    file.unlink()
    file.mkdir()
    (file / "inside").write_text("something")


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.write_bytes(b""),
        lambda entry: entry.write_bytes(CONTENT[:-1] + b"?"),  # same size
        lambda entry: entry.write_bytes(CONTENT + b"?"),
        lambda entry: entry.unlink(),
        lambda entry: entry.with_suffix(".json").unlink(),
        lambda entry: entry.with_suffix(".json").write_text("{"),
        lambda entry: entry.with_suffix(".json").write_text("[]"),
        lambda entry: entry.with_suffix(".json").write_text(json.dumps({"sha256": "0" * 64, "bytes": 26})),
        lambda entry: entry.with_suffix(".json").write_bytes(b"\xff\x00"),
        lambda entry: entry.with_suffix(".json").write_text("[" * 100_000),
        lambda entry: replaced_by_a_folder(entry),
        lambda entry: replaced_by_a_folder(entry.with_suffix(".json")),
        lambda entry: (entry.unlink(), entry.symlink_to("nowhere")),
    ],
)
def test_damaged_entry_is_made_again(damage):
    make = Maker()
    entry = cache.fetch(cache.key("a"), make)
    damage(entry)
    assert cache.fetch(cache.key("a"), make).read_bytes() == CONTENT
    assert make.calls == 2
    cache.fetch(cache.key("a"), make)
    assert make.calls == 2


def test_failure_is_passed_on_and_leaves_nothing(folder):
    def fail(target):
        target.write_bytes(b"half")
        raise ToolError("no")

    with pytest.raises(ToolError, match=r"^no$"):
        cache.fetch(cache.key("a"), fail)
    assert not [file for file in folder.iterdir() if file.suffix != ".lock"]
    make = Maker()
    cache.fetch(cache.key("a"), make)  # the lock is free again
    assert make.calls == 1


def test_make_that_makes_nothing_is_a_bug():
    with pytest.raises(InternalError, match="empty or missing"):
        cache.fetch(cache.key("a"), Maker(b""))
    assert cache.entries(cache.kept()) == ()


def test_threads_that_race_make_once():
    calls = []
    barrier = threading.Barrier(8)
    results = []

    def make(target):
        calls.append(1)
        time.sleep(0.1)
        target.write_bytes(CONTENT)

    def run():
        barrier.wait()
        results.append(cache.fetch(cache.key("a"), make).read_bytes())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert results == [CONTENT] * 8


def test_processes_that_race_make_once(tmp_path):
    log = tmp_path / "log"
    start = str(time.time() + 1.0)  # all have imported by then
    command = [sys.executable, "-c", WORKER, cache.key("a"), str(log), start]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(6)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [(b"", 0)] * 6
    assert log.read_text() == "x"


def test_off_keeps_nothing_in_the_folder(folder, monkeypatch):
    monkeypatch.setenv("SPFGEN_CACHE", "off")
    make = Maker()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was asked for
        entry = cache.fetch(cache.key("off"), make)
    assert not folder.exists()
    assert entry.read_bytes() == CONTENT
    assert cache.fetch(cache.key("off"), make) == entry  # within the process it is kept
    assert make.calls == 1
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700


def test_private_folder_goes_away_with_the_process():
    code = "from spfgen.run import cache; import sys; sys.stdout.write(str(cache.path()))"
    environment = {**os.environ, "SPFGEN_CACHE": "off"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0
    assert Path(ended.stdout).name.startswith("spfgen-")
    assert not Path(ended.stdout).exists()


def test_unknown_setting(monkeypatch):
    monkeypatch.setenv("SPFGEN_CACHE", "of")
    with pytest.raises(UsageError, match="expected on or off in the environment variable SPFGEN_CACHE"):
        cache.path()


def assert_falls_back(reason):
    make = Maker()
    with pytest.warns(UserWarning, match=reason):
        entry = cache.fetch(cache.key(reason), make)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        cache.fetch(cache.key(reason), make)
    assert entry.parent.name.startswith("spfgen-")
    assert entry.read_bytes() == CONTENT
    assert make.calls == 1
    assert cache.where().problem


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which not even root can write")
def test_read_only_folder(monkeypatch):
    monkeypatch.setenv("SPFGEN_CACHE_DIR", "/proc/self")
    assert_falls_back("cannot be written")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(folder):
    folder.mkdir(mode=0o500)
    assert_falls_back("cannot be written")


def test_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    assert_falls_back("cannot be made")


def test_world_writable_folder(folder):
    folder.mkdir()
    folder.chmod(0o777)
    assert_falls_back("others may write")
    assert list(folder.iterdir()) == []


def test_folder_of_somebody_else(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:  # what is root's is trusted
        os.chown(folder, 54321, -1)
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert_falls_back("belongs to somebody else")


def test_order_of_the_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.path() == tmp_path / "kernels"
    monkeypatch.delenv("SPFGEN_CACHE_DIR")
    assert cache.path() == tmp_path / "xdg" / "spfgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: tmp_path / "user" / name)
    assert cache.path() == tmp_path / "user" / "spfgen"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.path() == tmp_path / "user" / "spfgen"


def test_entries_and_clear(folder):
    before = time.time()
    made = {cache.fetch(cache.key(name), Maker(), about=f"kernel {name}").stem: name for name in "abc"}
    (folder / f"{cache.key('a')}.x1y2.tmp").write_text("left by a killed process")
    (folder / "letter.so").write_text("not ours")
    listed = cache.entries(folder)
    assert {entry.key for entry in listed} == set(made)
    for entry in listed:
        assert (entry.about, entry.bytes) == (f"kernel {made[entry.key]}", len(CONTENT))
        assert before - 2 <= entry.made <= time.time() + 2
    assert [entry.made for entry in listed] == sorted((entry.made for entry in listed), reverse=True)
    (folder / f"{cache.key('b')}.json").write_text("damaged")
    assert {entry.about for entry in cache.entries(folder)} == {"kernel a", "", "kernel c"}
    replaced_by_a_folder(folder / f"{cache.key('c')}.so")
    assert len(cache.entries(folder)) == 2
    assert cache.clear() == 3
    assert [file.name for file in folder.iterdir()] == ["letter.so"]
    assert cache.clear() == 0
    assert cache.entries(folder) == ()


def test_kept_is_the_folder_or_says_why_there_is_none(folder, monkeypatch):
    assert cache.kept() == folder
    folder.chmod(0o777)
    with pytest.raises(ToolError, match="others may write"):
        cache.kept()
    monkeypatch.setenv("SPFGEN_CACHE", "off")
    with pytest.raises(UsageError, match="SPFGEN_CACHE is off"):
        cache.kept()


def test_clear_leaves_what_is_being_made():
    removed = []

    def make(target):
        removed.append(cache.clear())
        target.write_bytes(CONTENT)

    assert cache.fetch(cache.key("a"), make).read_bytes() == CONTENT
    assert removed == [0]


def test_file_system_without_locks(monkeypatch):
    def refuse(self, *_, **__):
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    make = Maker()
    assert cache.fetch(cache.key("a"), make).read_bytes() == CONTENT
    assert cache.fetch(cache.key("a"), make).read_bytes() == CONTENT
    assert make.calls == 1
