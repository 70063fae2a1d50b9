"""What a model reads of a command, and what a card takes back out of it (HOST-198, 203)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from ...services.jobs import JobHandle
    from .executor import Finished

__all__ = ["Background", "Foreground", "Sandboxed", "StreamText", "background", "foreground", "render", "split_marker"]


class StreamText(TypedDict):
    """One stream of a command: its end, and the file with all of it where that is not everything."""

    text: str
    truncated: bool
    spillPath: NotRequired[str]


class Sandboxed(TypedDict):
    """How the command was confined, and whether that seems to have stopped it."""

    mode: str
    network: bool
    denied: bool


class Foreground(TypedDict):
    """A command that has ended; ``exitCode`` is null where a signal ended it."""

    kind: Literal["foreground"]
    exitCode: int | None
    signal: str | None
    timedOut: bool
    aborted: bool
    timeoutMs: int
    stdout: StreamText
    stderr: StreamText
    stoppedProcesses: NotRequired[int]
    sandbox: NotRequired[Sandboxed]


class Background(TypedDict):
    """A command that runs on as a job."""

    kind: Literal["background"]
    jobId: str


def foreground(finished: Finished, timeout_ms: int, sandbox: Sandboxed | None) -> Foreground:
    """Return the value of a command that has ended."""
    outcome = finished.outcome
    value = Foreground(
        kind="foreground",
        exitCode=outcome.exit_code,
        signal=outcome.signal,
        timedOut=outcome.timed_out,
        aborted=outcome.stopped,
        timeoutMs=timeout_ms,
        stdout=_stream(finished.stdout.text, finished.stdout.truncated, finished.stdout.spill_path),
        stderr=_stream(finished.stderr.text, finished.stderr.truncated, finished.stderr.spill_path),
    )
    if outcome.leftovers:
        value["stoppedProcesses"] = outcome.leftovers
    if sandbox is not None:
        value["sandbox"] = sandbox
    return value


def background(handle: JobHandle) -> Background:
    """Return the value of a command that was started as a job."""
    return Background(kind="background", jobId=handle.job_id)


def render(value: Foreground | Background) -> str:
    """Return the text of a command's value; how it ended is always the last line."""
    if value["kind"] == "background":
        return f"started background job {value['jobId']}"
    stdout, stderr = _body(value["stdout"]), _body(value["stderr"])
    parts = [part for part in (stdout, f"[stderr]\n{stderr}" if stderr else "") if part]
    return "\n".join([*(parts or ["(no output)"]), *_markers(value)])


_EXIT = re.compile(r"\[(?:exit code: (?P<code>\d{1,3})|killed by signal: (?P<signal>[A-Za-z0-9 +]{1,20}))\]\Z")


def split_marker(shown: str) -> tuple[str, int | None, str | None]:
    """Return a rendered text without its last marker, and the exit code or signal that the marker gives.

    Without a marker the exit code is 0 (HOST-203).
    """
    head, newline, last = shown.rpartition("\n")
    found = _EXIT.match(last)
    if found is None:
        return shown, 0, None
    body = head if newline else ""
    if found["signal"] is not None:
        return body, None, found["signal"]
    return body, int(found["code"]), None


def _stream(text: str, truncated: bool, spill_path: str | None) -> StreamText:
    value = StreamText(text=text, truncated=truncated)
    if spill_path is not None:
        value["spillPath"] = spill_path
    return value


def _body(stream: StreamText) -> str:
    text = stream["text"].removesuffix("\n")
    if not stream["truncated"]:
        return text
    return f"{text}\n[output truncated; full output: {stream.get('spillPath', '(unavailable)')}]"


def _markers(value: Foreground) -> list[str]:
    markers: list[str] = []
    stopped = value.get("stoppedProcesses", 0)
    if stopped:
        what = "a background process" if stopped == 1 else f"{stopped} background processes"
        markers.append(f"[stopped {what} that the command left running]")
    sandbox = value.get("sandbox")
    if sandbox is not None and sandbox["denied"]:
        network = "" if sandbox["network"] else ", no network"
        markers.append(f"[the sandbox seems to have stopped this: {sandbox['mode']}{network}]")
    if value["timedOut"]:
        markers.append(f"[timed out after {value['timeoutMs']}ms]")
    if value["signal"] is not None:
        markers.append(f"[killed by signal: {value['signal']}]")
    elif value["exitCode"]:
        markers.append(f"[exit code: {value['exitCode']}]")
    return markers
