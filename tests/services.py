"""Servers that tests need, of our own making: started on loopback when first asked for, gone when the tests are.

- `TEST_POSTGRES_URL` names a server to use in place of our own; tests that stop a server make their own all the same.
- Without it, a private cluster is made of the programs that are installed, in a temporary directory, on a free port.
- Where nothing is installed tests are skipped and say so; with `LOOPWRIGHT_REQUIRE_SERVICES=1` they fail instead.
- A guard, a process beside the tests, holds the other end of a pipe. When that closes, in whatever way the tests
  have ended, it stops the one server that its directory belongs to, and removes the directory.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

REQUIRED = os.environ.get("LOOPWRIGHT_REQUIRE_SERVICES") == "1"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "fsync": "off",
    "full_page_writes": "off",
}
"""Fast, and safe against a crash of the server, though not of the machine."""


def missing(reason: str) -> None:
    """Skip the test, or fail it where services have to be there."""
    import pytest

    if REQUIRED:
        pytest.fail(f"{reason} LOOPWRIGHT_REQUIRE_SERVICES=1 asks for it.", pytrace=False)
    pytest.skip(reason)


def postgres_programs() -> Path | None:
    """The folder of the newest PostgreSQL on this machine."""
    beside = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    return next((path for path in (*reversed(debian), *beside) if (path / "initdb").exists()), None)


def has_postgres() -> bool:
    """Whether tests that need PostgreSQL run here."""
    return bool(os.environ.get("TEST_POSTGRES_URL")) or postgres_programs() is not None


class Cluster:
    """A PostgreSQL server in a directory of its own."""

    def __init__(self, programs: Path, **settings: str) -> None:
        self.programs = programs
        self.settings = _SETTINGS | settings
        self.home = Path(tempfile.mkdtemp(prefix="loopwright-pg-"))
        self.data = self.home / "data"
        if os.geteuid() == 0:  # the server refuses to run as root
            owner = pwd.getpwnam("postgres")
            os.chown(self.home, owner.pw_uid, owner.pw_gid)
        self._guard = subprocess.Popen(
            [sys.executable, __file__, str(programs), str(self.home)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests
        )
        try:
            _run(programs, "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
            self.port = _free_port()
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """On the port it had. Returns when connections are taken."""
        settings = {**self.settings, "port": str(self.port), "unix_socket_directories": str(self.home)}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        _run(self.programs, "pg_ctl", "-D", self.data, "-s", "-w", "-l", self.home / "log", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is what a crash is: connections break, the next start recovers from the log."""
        _run(self.programs, "pg_ctl", "-D", self.data, "-s", "-w", "-m", mode, "stop")

    def copy(self) -> Path:
        """All that was committed so far, as a replica has it. Connections break for it."""
        self.stop("fast")
        copy = self.home / f"copy-{len(list(self.home.iterdir()))}"
        subprocess.run(["cp", "-a", self.data, copy], check=True)  # with its owner
        self.start()
        return copy

    def fail_over(self, copy: Path) -> None:
        """What was committed since the copy was made is lost, and the server of the copy answers at this address."""
        self.stop()
        shutil.rmtree(self.data)
        copy.rename(self.data)
        self.start()

    def remove(self) -> None:
        self._guard.communicate()  # closes the pipe and waits


def _run(programs: Path, name: str, *arguments: object) -> None:
    command = [str(programs / name), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    # The server keeps what it inherits open, so it must not be a pipe that somebody reads to its end.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=60, check=False
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {output.read().decode(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_cluster(**settings: str) -> Cluster:
    """A server that the caller may stop and start; `remove()` it at the end."""
    programs = postgres_programs()
    if programs is None:
        missing("PostgreSQL is not installed (initdb was not found).")
        raise AssertionError
    try:
        return Cluster(programs, **settings)
    except KeyError:
        missing("There is no user `postgres` for PostgreSQL to run as, and it does not run as root.")
        raise


def postgres_server() -> Iterator[str]:
    """The url of a server that tests share."""
    given = os.environ.get("TEST_POSTGRES_URL")
    if given:
        yield given
        return
    cluster = own_cluster()
    try:
        yield cluster.url
    finally:
        cluster.remove()


_numbers = itertools.count(1)


@contextmanager
def empty_schema(server: str) -> Iterator[str]:
    """A url whose tables are in a schema of their own: a hundred times cheaper than a database."""
    import psycopg
    from psycopg import sql

    name = f"test_{os.getpid()}_{next(_numbers)}"
    schema = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        try:
            yield f"{server}{'&' if '?' in server else '?'}options={quote(f'-csearch_path={name}')}"
        finally:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema))


def _guard() -> None:
    """Wait for the tests to end, then stop the server of one directory and remove it."""
    programs, home = map(Path, sys.argv[1:])
    sys.stdin.buffer.read()
    if (home / "data" / "postmaster.pid").exists():
        _run(programs, "pg_ctl", "-D", home / "data", "-s", "-w", "-m", "immediate", "stop")
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _guard()
