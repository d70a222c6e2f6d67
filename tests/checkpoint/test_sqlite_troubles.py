"""What SqliteSaver does when the file cannot be used: words that help, nothing half written, and it goes on after."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from loopwright.checkpoint.conformance.records import ids, loaded, record, said
from loopwright.checkpoint.sql import SCHEMA_VERSION, SQLITE, Sql, prepare
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import SaverError, StoredDataError, UnstorableError, UsageError
from loopwright.messages import HumanMessage
from loopwright.messages.history import add_messages


@pytest.fixture
def path(tmp_path):
    return tmp_path / "threads.sqlite"


def run(program: str, *args: object, before: list[str] | None = None) -> str:
    """Another process; returns what it printed."""
    command = [*(before or []), sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- files that cannot be used ---------------------------------------------------


def test_a_file_that_is_no_database(path):
    path.write_text("Dear diary, " * 100)

    with pytest.raises(SaverError, match=r"threads.sqlite'\): it is no SQLite database. Name another file"):
        SqliteSaver(path)
    assert path.read_text() == "Dear diary, " * 100


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(SaverError, match=r"there is no folder '.*/nowhere'. Make it"):
        SqliteSaver(tmp_path / "nowhere" / "threads.sqlite")


def test_a_path_that_is_a_folder(tmp_path):
    with pytest.raises(UsageError, match=r"that is a folder. Name a file in it: .*/threads.db"):
        SqliteSaver(tmp_path)


@pytest.mark.parametrize("given", [None, 5, "", b"threads.db"])
def test_what_is_no_path(given):
    with pytest.raises(UsageError, match=r'SqliteSaver takes the path of a file, "threads.db", or ":memory:"; got'):
        SqliteSaver(given)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("sqlite:///threads.db", r'Write SqliteSaver\("threads.db"\)'),
        ("file:threads.db?mode=ro", r'Write SqliteSaver\("threads.db"\)'),
        ("postgresql://ann:secret@host/db", "import PostgresSaver"),
        (Path("postgresql://ann:secret@host/db"), "import PostgresSaver"),
    ],
)
def test_a_url_is_refused_and_not_shown(given, hint):
    with pytest.raises(UsageError, match=hint) as caught:
        SqliteSaver(given)
    assert "secret" not in str(caught.value)


def test_tables_of_a_later_version(path):
    SqliteSaver(path).close()
    other = sqlite3.connect(path)
    other.execute("UPDATE loopwright_meta SET value = 7 WHERE name = 'schema'")
    other.commit()
    other.close()

    with pytest.raises(SaverError, match=r"version 7, and this Loopwright knows versions up to 1\. A newer"):
        SqliteSaver(path)


def test_tables_are_made_once_and_beside_those_of_others(path):
    """LangGraph's saver has tables named `checkpoints` and `writes` in its file."""
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    other.commit()
    other.close()
    for number in range(2):
        with SqliteSaver(path) as saver:
            saver.save(record(f"c{number}"))

    with SqliteSaver(path) as saver:
        assert ids(saver.walk("t")) == ["c1", "c0"]
        assert saver._file.write(lambda: prepare(SQLITE)) is None
    assert SCHEMA_VERSION == 1


def test_a_file_that_another_program_keeps_locked(path):
    saver = SqliteSaver(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(SaverError, match=r"another program has kept it locked all the time. Let that one finish"):
        saver.save(record("c1"))
    assert saver.load("t") is None  # readers wait for nobody
    other.execute("COMMIT")
    other.close()
    saver.save(record("c1"))
    assert loaded(saver).id == "c1"
    saver.close()


NO_RIGHTS = """
import os, sys
from loopwright.checkpoint.base import Record
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import SaverError
with SqliteSaver(":memory:") as saver:  # what is imported when it is used is imported
    saver.save(Record(id="c1", thread_id="t"))
if os.getuid() == 0:  # rights do not bind root: be somebody else
    os.chown(os.path.dirname(sys.argv[1]), 65534, 65534), os.setgid(65534), os.setuid(65534)
path = sys.argv[1]
saver = SqliteSaver(path)
saver.save(Record(id="c1", thread_id="t"))
saver.close()
os.chmod(path, 0o400)
try:
    saver.save(Record(id="c2", thread_id="t"))
except SaverError as error:
    print(error)
for name in os.listdir(os.path.dirname(path)):
    os.chmod(os.path.join(os.path.dirname(path), name), 0o600)
saver.save(Record(id="c3", thread_id="t"))
print([record.id for record in saver.walk("t")])
saver.close()
folder = os.path.dirname(path)
os.chmod(folder, 0o500)
try:
    SqliteSaver(folder + "/other.sqlite")
except SaverError as error:
    print(error)
os.chmod(folder, 0o700)
SqliteSaver(folder + "/other.sqlite").close()
os.mkdir(folder + "/inner")
os.chmod(folder, 0)
try:
    SqliteSaver(folder + "/inner/other.sqlite")
except SaverError as error:
    print(error)
os.chmod(folder, 0o700)
"""


def test_a_file_that_is_read_only_and_a_folder_too():
    with tempfile.TemporaryDirectory() as folder:
        out = run(NO_RIGHTS, f"{folder}/threads.sqlite").splitlines()

    assert len(out) == 4
    assert "it is read-only. Let this process write to the file" in out[0]
    assert out[1] == "['c3', 'c1']"
    assert "it cannot be opened. Let this process write to the file" in out[2]
    assert "it cannot be opened. Let this process write to the file" in out[3], "in a folder it may not enter"


@pytest.mark.parametrize("other", [None, "new.sqlite"], ids=["deleted", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_in_use(path, other):
    """What would be written to the file that is open would reach nobody. Once it is back, the saver goes on."""
    saver = SqliteSaver(path)
    saver.save(record("c1"))
    saver.load("t")
    aside = path.with_name("aside.sqlite")
    path.rename(aside)
    if other is not None:
        SqliteSaver(path.with_name(other)).close()
        path.with_name(other).rename(path)

    words = r"SqliteSaver\('.*threads.sqlite'\): the file was deleted, moved or replaced .* Put it back and call again"
    with pytest.raises(SaverError, match=words):
        saver.save(record("c2"))
    with pytest.raises(SaverError, match=words):
        saver.load("t")
    assert path.exists() == (other is not None), "nothing was made in its place"

    aside.rename(path)
    saver.save(record("c3"))
    assert ids(saver.walk("t")) == ["c3", "c1"]
    saver.close()


# --- no room ---------------------------------------------------------------------


def test_a_file_that_may_not_grow(path):
    """The thread is as it was, in the file and in what the saver remembers, and goes on when there is room."""
    saver = SqliteSaver(path)
    history = add_messages([], [HumanMessage("first", id="1")])
    saver.save(record("c1", values={"messages": history}))

    def limit(pages):
        rows = yield Sql(f"PRAGMA max_page_count = {pages}")
        return rows

    saver._file.write(lambda: limit(20))
    grown = add_messages(history, [HumanMessage("second " * 20_000, id="2")])
    with pytest.raises(SaverError, match=r"there is no room for it. Free some .* Nothing of this call was saved"):
        saver.save(record("c2", "c1", values={"messages": grown}), {"messages"})
    with pytest.raises(SaverError, match="no room"):
        saver.save_writes("t", "", "c1", "task", [("messages", [grown[1]])])
    assert ids(saver.walk("t")) == ["c1"]
    small = add_messages(history, [HumanMessage("small", id="3")])
    saver.save(record("c3", "c1", values={"messages": small}), {"messages"})

    saver._file.write(lambda: limit(100_000))
    saver.save(record("c4", "c1", values={"messages": grown}), {"messages"})
    saver.close()
    with SqliteSaver(path) as other:
        assert said(loaded(other).values["messages"]) == ["first", "second " * 20_000]
        assert said(loaded(other, id="c3").values["messages"]) == ["first", "small"]


async def test_one_that_finds_no_room_does_not_spoil_the_others_of_its_transaction(path):
    import asyncio

    saver = SqliteSaver(path)
    saver.save(record("c0"))

    def limit():
        rows = yield Sql("PRAGMA max_page_count = 60")
        return rows

    saver._file.write(limit)
    sizes = [10 if number % 5 else 400_000 for number in range(20)]
    saving = [saver.asave(record(f"c{number + 1}", values={"n": "x" * size})) for number, size in enumerate(sizes)]
    results = await asyncio.gather(*saving, return_exceptions=True)

    assert [type(result) for result in results] == [SaverError if size > 10 else type(None) for size in sizes]
    assert len(ids(saver.walk("t"))) == 17
    saver.close()


FULL = """
import subprocess, sys
from pathlib import Path
from loopwright.checkpoint.base import Record
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import SaverError
folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", folder], check=True)
saver = SqliteSaver(folder + "/threads.sqlite")
filler = Path(folder, "filler")
saver.save(Record(id="c0", thread_id="t"))
filler.write_bytes(b"x" * 300_000)
saved, refused = [], None
for number in range(1, 100):
    try:
        saver.save(Record(id=f"c{number}", thread_id="t", values={"n": "x" * 9000}))
    except SaverError as error:
        refused = error
        break
    saved.append(f"c{number}")
print(refused)
print([record.id for record in saver.walk("t")] == [*reversed(saved), "c0"])
filler.unlink()
saver.save(Record(id="after", thread_id="t"))
saver.close()
saver = SqliteSaver(folder + "/threads.sqlite")
print([record.id for record in saver.walk("t")] == ["after", *reversed(saved), "c0"])
"""


def test_a_disk_that_is_full(tmp_path):
    """A real one: a file system of 600 kB, mounted where this user may."""
    space = ["unshare", "--map-root-user", "--mount"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*space, "mount", "-t", "tmpfs", "none", str(tmp_path)], check=False).returncode
    ):
        pytest.skip("needs a mount namespace")

    said, kept, after = run(FULL, tmp_path, before=space).splitlines()

    assert "there is no room for it. Free some on the disk, and call again" in said
    assert (kept, after) == ("True", "True")


# --- refused early ---------------------------------------------------------------


def test_what_cannot_be_stored_is_refused_before_the_file_is_touched(path):
    with SqliteSaver(path) as saver:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnstorableError, match=r'state\["f"\] cannot be stored'):
            saver.save(record("c1", values={"f": print}))
        other.close()


# --- rows that are damaged ---------------------------------------------------------

DAMAGES = [
    f"{column} = {damage}"
    for column in ("checkpoints.body", "checkpoints.id", "cells.blob", "items.blob", "writes.blob", "writes.task")
    for damage in ("x'74ff'", "x''", "5", "'text'", "x'c1c1c1c1c1c1c1'")
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_are_told_and_hide_no_other_thread(path, damage):
    with SqliteSaver(path) as saver:
        for thread in ("bad", "good"):
            history = add_messages([], [HumanMessage("hi", id="1")])
            saver.save(record("c1", None, thread, values={"messages": history, "x": "word " * 20}))
            saver.save_writes(thread, "", "c1", "task", [("x", "word " * 21)])
    table, _, change = damage.partition(".")
    connection = sqlite3.connect(path)
    connection.execute(
        f"UPDATE loopwright_{table} SET {change} WHERE rowid = (SELECT MIN(rowid) FROM loopwright_{table})"
    )
    connection.commit()
    connection.close()

    with SqliteSaver(path) as saver:
        with pytest.raises(StoredDataError, match=r"SqliteSaver\(.*threads.sqlite'\), thread 'bad': "):
            list(saver.walk("bad"))
        with pytest.warns(RuntimeWarning, match="thread 'bad': "):
            assert [found.thread_id for found in saver.walk(None)] == ["good"]
        with contextlib.suppress(StoredDataError):
            saver.prune(["bad"])
        with contextlib.suppress(StoredDataError):
            saver.save(record("c2", "c1", "bad", values={"x": "word " * 22}), {"x"})
        with contextlib.suppress(StoredDataError, UsageError):
            saver.save_writes("bad", "", "c1", "task", [("x", "word " * 22)])
        saver.delete_thread("bad")
        assert [found.thread_id for found in saver.walk(None, filter={"source": "loop"})] == ["good"]
