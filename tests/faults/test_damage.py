"""A data directory that lost something is refused with one line, and salvaged; one that was killed is not."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.apiserver.storage import Durability, StorageDamaged, Store, encode_value, salvage

OBJECTS = 120
WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from quarterdeck.apiserver.storage import Durability, Store, encode_value

async def main():
    store = Store(Path(sys.argv[1]))
    bucket = store.bucket("", "configmaps", namespaced=True)
    for number in range(int(sys.argv[2])):
        name = f"config-{number:03}"
        value = encode_value({"metadata": {"name": name}, "data": {"text": name * 100}})
        await store.put(bucket, "default", name, value, expected=0)
    if sys.argv[3] == "stop":
        await store.close()
    else:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
RUN = [sys.executable, "-m", "quarterdeck.cli", "apiserver", "--port", "0"]


def _write(directory: Path, end: str) -> Path:
    (directory / "pki").mkdir(parents=True)
    done = subprocess.run([sys.executable, "-c", WRITER, str(directory), str(OBJECTS), end], check=False)
    assert done.returncode == (0 if end == "stop" else -signal.SIGKILL)
    return directory


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A directory whose server was killed, and one whose server was stopped."""
    place = tmp_path_factory.mktemp("data")
    return {end: _write(place / end, end) for end in ("kill", "stop")}


def count(directory: Path) -> int:
    """How many objects a store has that opens the directory."""
    store = Store(directory, Durability.NORMAL)
    try:
        return store.bucket("", "configmaps", namespaced=True).count
    finally:
        store._log.close()


def contents(directory: Path) -> dict[str, bytes]:
    """What the database and its log hold."""
    files = {path.name: path.read_bytes() for path in directory.glob("state.db*") if "shm" not in path.name}
    return {name: content for name, content in files.items() if content}


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x20]))


def flip_log(directory: Path) -> None:
    log = directory / "state.db-wal"
    flip(log, log.stat().st_size // 2 + 2000)


def flip_log_header(directory: Path) -> None:
    flip(directory / "state.db-wal", 9)


def cut_log(directory: Path) -> None:
    log = directory / "state.db-wal"
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)


def remove_log(directory: Path) -> None:
    (directory / "state.db-wal").unlink()


def empty_database(directory: Path) -> None:
    (directory / "state.db").write_bytes(b"")


def empty_database_without_mark(directory: Path) -> None:
    empty_database(directory)
    (directory / "state.mark").unlink()


def remove_database(directory: Path) -> None:
    (directory / "state.db").unlink()


def break_value(directory: Path) -> None:
    database = directory / "state.db"
    flip(database, database.read_bytes().index(b"config-077config-077config-077") + 100)


def break_page(directory: Path) -> None:
    database = directory / "state.db"
    at = database.read_bytes().index(b"config-077config-077config-077") // 4096 * 4096
    with database.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 4096)


def cut_database(directory: Path) -> None:
    database = directory / "state.db"
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)


DAMAGES: list[tuple[str, Callable[[Path], None], str, int]] = [
    ("kill", flip_log, "state.db-wal", OBJECTS - 1),
    ("kill", flip_log_header, "state.db", OBJECTS),
    ("kill", cut_log, "state.db-wal", 40),
    ("kill", remove_log, "state.db", 0),
    ("kill", empty_database, "state.db", OBJECTS),
    ("kill", empty_database_without_mark, "state.db", OBJECTS),
    ("kill", remove_database, "state.db", OBJECTS),
    ("stop", empty_database, "state.db", 0),
    ("stop", break_value, "state.db", OBJECTS - 1),
    ("stop", break_page, "state.db", OBJECTS - 10),
    ("stop", cut_database, "state.db", 30),
]


@pytest.mark.parametrize(
    ("end", "damage", "named", "saved"), DAMAGES, ids=[f"{each[0]}-{each[1].__name__}" for each in DAMAGES]
)
def test_damage_is_refused_by_name_and_what_can_be_read_is_salvaged(
    originals: dict[str, Path],
    tmp_path: Path,
    end: str,
    damage: Callable[[Path], None],
    named: str,
    saved: int,
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(originals[end], directory)
    damage(directory)
    before = contents(directory)
    with pytest.raises(StorageDamaged) as refused:
        count(directory)
    text = str(refused.value)
    assert text.startswith(f"{directory / named} ")
    assert "\n" not in text
    assert f"quarterdeck apiserver --salvage --data-dir {directory}" in text
    assert contents(directory) == before, "refusing changes nothing"

    report = salvage(directory)
    assert report.objects >= saved
    told = "\n".join(report.lines())
    assert f"saved {report.objects} objects" in told
    assert report.objects == OBJECTS or "lost" in told or "broken" in told
    assert count(directory) == report.objects
    assert all((report.folder / name).read_bytes() == content for name, content in before.items())


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_everything_is_there_after_a_kill_and_after_a_stop(
    originals: dict[str, Path], tmp_path: Path, end: str
) -> None:
    shutil.copytree(originals[end], tmp_path / "data")
    assert count(tmp_path / "data") == OBJECTS


def test_the_end_of_a_commit_that_nobody_was_told_of_may_be_torn(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(originals["kill"], directory)
    log = directory / "state.db-wal"
    with log.open("ab") as file:  # as if killed in the middle of one more commit
        file.write(log.read_bytes()[-4120:-1000])
    assert count(directory) == OBJECTS


def test_a_directory_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    import sqlite3

    db = sqlite3.connect(tmp_path / "state.db")
    db.executescript(
        "PRAGMA journal_mode=WAL;"
        "CREATE TABLE log (rev INTEGER PRIMARY KEY, key TEXT NOT NULL, op INTEGER NOT NULL,"
        " create_rev INTEGER NOT NULL, prev_rev INTEGER NOT NULL, value BLOB NOT NULL);"
        "CREATE INDEX log_key ON log (key, rev);"
        "CREATE TABLE meta (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;"
        "INSERT INTO meta VALUES ('schema', '1'), ('instance', 'x'), ('last_rev', '0'), ('compact_rev', '0');"
    )
    value = encode_value({"metadata": {"name": "a"}})
    db.execute("INSERT INTO log VALUES (1, '//configmaps/default/a', 1, 1, 0, ?)", (value,))
    db.commit()
    db.close()
    assert count(tmp_path) == 1
    db = sqlite3.connect(tmp_path / "state.db")
    assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    db.close()
    assert count(tmp_path) == 1


def test_the_command_refuses_in_one_line_salvages_and_starts(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(originals["kill"], directory)
    cut_log(directory)
    command = [*RUN, "--data-dir", str(directory)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    [line] = refused.stderr.strip().splitlines()
    assert f"{directory / 'state.db-wal'} is broken or cut off" in line
    assert f"quarterdeck apiserver --salvage --data-dir {directory}" in line
    salvaged = subprocess.run(
        [*command, "--salvage"], capture_output=True, text=True, timeout=60, check=False
    )
    assert salvaged.returncode == 0, salvaged.stderr
    assert salvaged.stdout.startswith("saved ")
    assert "lost " in salvaged.stdout
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready: ")
    finally:
        process.terminate()
        process.communicate(timeout=30)
