"""A real PostgreSQL server on a Unix socket in a folder of its own, for one test run."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import find_program


class PostgresServer:
    """A running server; ``conninfo`` reaches it."""

    def __init__(self, folder: Path, bin_dir: Path, user: str | None) -> None:
        self.folder = folder
        self._bin = bin_dir
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        return f"host={self.folder} port=5432 user=dsh dbname=postgres"

    def initialise(self) -> None:
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "dsh", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._bin / "postgres",
                    "-D",
                    self.folder / "data",
                    "-k",
                    self.folder,
                    "-c",
                    "listen_addresses=",
                    "-c",
                    "max_connections=40",
                    "-c",
                    "shared_buffers=16MB",
                ],
                stdout=log,
                stderr=log,
                user=self._user,
                group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
                extra_groups=None if self._user is None else [],
                cwd=self.folder,
            )
        for _ in range(200):
            ready = subprocess.run([self._bin / "pg_isready", "-q", "-h", self.folder, "-U", "dsh"], cwd=self.folder)
            if ready.returncode == 0:
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start:\n" + (self.folder / "log").read_text(errors="replace"))

    def stop(self) -> None:
        """Stop at once, dropping every connection, as a crash of the server would."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(3)  # SIGQUIT: immediate shutdown
            process.wait(timeout=30)

    def _run(self, program: str, *args: str) -> None:
        done = subprocess.run(
            [self._bin / program, *args],
            capture_output=True,
            text=True,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            cwd=self.folder,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server; its binaries must be there (marker ``needs("postgres")``)."""
    program = find_program("postgres")
    assert program is not None
    # The server refuses to run as root, so a user without rights runs it.
    user = "nobody" if os.geteuid() == 0 else None
    # A short path: the name of a Unix socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = PostgresServer(folder, program.resolve().parent, user)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
