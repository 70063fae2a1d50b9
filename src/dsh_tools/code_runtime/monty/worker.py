"""One interpreter process that takes one program: fed step by step, ended by a signal."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import psutil

from ...json_value import JsonValue, snapshot, thaw
from ...kernel.exits import exit_code, wait_for_exit
from ...kernel.tasks import see_out
from ..budgets import RuntimeConfig
from ..pool import WorkerStartError
from ..protocol import LONGEST_SLEEP
from ..run import STUCK, Answer, BindingRejection, Outcome, Run
from ..seam import CodeRunError
from .answers import NOTHING, Answers, OrderedAnswers, Settled, StuckError
from .failures import crash_error, end_error, failure_of, start_error
from .moment import REPEATABLE_POLICY, Moment
from .prelude import HOST_CALL, PRELUDE
from .prints import Prints
from .source import error_types, prepare

if TYPE_CHECKING:
    from pydantic_monty import (
        AsyncFunctionSnapshot,
        AsyncFutureSnapshot,
        AsyncMonty,
        AsyncMontySession,
        OSPolicy,
        ResourceLimits,
    )

__all__ = ["MAX_DEPTH", "MontyWorker"]

MAX_DEPTH = 6000
"""How deep calls and values may nest. Much deeper, and the interpreter's own stack overflows."""

ARGUMENT_CHARACTERS = 64 << 20
"""The largest arguments of one call, in characters of JSON text."""

_MIB = 1 << 20
_ENGINE_BYTES = 512 * _MIB
_CPU_GRACE_SECONDS = 30
_LAST_WORDS_SECONDS = 0.02
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_LIMIT = 2**31 - 1
_INVALID_OUTPUT = CodeRunError("invalid-output", "program completion must be lossless JSON")
_LOSSY_RESULT = "binding resolution must be lossless JSON"
_LOSSY_ARGUMENTS = "binding arguments must be lossless JSON"
_FAULTS = {
    "lossy": _LOSSY_ARGUMENTS,
    "large": f"binding arguments exceed {ARGUMENT_CHARACTERS} characters",
}


def _host_call(*_arguments: object) -> None:
    """Stand for the host in the interpreter, which announces calls by this name; itself never called."""


_host_call.__name__ = HOST_CALL


class MontyWorker:
    """An interpreter process that takes one program and is never used again. Make one with :meth:`start`."""

    def __init__(self, session: AsyncMontySession, config: RuntimeConfig) -> None:
        self._session = session
        self._config = config
        self._process: psutil.Process | None = None
        self._driver: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._prints = Prints(config.max_output_bytes)
        self._answers = Answers()
        self._moment: Moment | None = None
        self._error_types: dict[str, str] = {}

    @classmethod
    async def start(cls, pool: AsyncMonty, config: RuntimeConfig, *, repeatable: bool = False) -> MontyWorker:
        """Start a process and wait until it is ready for a program.

        One that is ``repeatable`` takes its time and its chance from us, and repeatable programs only.

        Raises:
            WorkerStartError: it did not start, or ended before it was ready.
        """
        limits: ResourceLimits = {
            "max_memory": int(config.max_old_generation_size_mb * _MIB),
            "max_recursion_depth": MAX_DEPTH,
            "max_suspensions": _NO_LIMIT,
        }
        from pydantic_monty import MontyError

        policy = cast("OSPolicy", {"sleep": "call_host", **(REPEATABLE_POLICY if repeatable else {})})
        session = pool.checkout(script_name="program.py", limits=limits, os_policy=policy)
        worker = cls(session, config)
        try:
            try:
                # The client cannot call back a process that it has begun to start.
                await see_out(asyncio.ensure_future(session.__aenter__()))
            finally:
                worker._hold(session.worker_pid)
            await session.feed_run(PRELUDE)
        except (MontyError, OSError, psutil.Error) as error:
            await worker.close()
            raise WorkerStartError(start_error(error)) from error
        except BaseException:
            await worker.close()
            raise
        return worker

    @property
    def alive(self) -> bool:
        """Whether it can still take a program."""
        if self._process is None or self._closing is not None:
            return False
        with suppress(psutil.Error):
            return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE
        return False

    def begin(self, run: Run) -> None:
        """Hand the program over. What comes of it goes to ``run``."""
        if self._process is not None:
            run.meter(self._process.pid)
        determinism = run.request.determinism
        if determinism is not None:
            self._moment = Moment(determinism)
            self._answers = OrderedAnswers(self._moment)
        self._prints.bind(run)
        self._driver = asyncio.ensure_future(self._drive(run))
        self._watch = asyncio.ensure_future(self._notice_end(run))

    async def close(self) -> None:
        """End the process and wait until nothing of it is left."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await see_out(self._closing)

    # ── the run ───────────────────────────────────────────────────────────────

    async def _drive(self, run: Run) -> None:
        # The extra is optional; whoever has a worker has it.
        from pydantic_monty import MontyComplete, MontyCrashedError

        try:
            step: Any = await self._feed(run)
            while not isinstance(step, MontyComplete):
                if self._moment is not None and self._overflows(run):
                    return
                step = await self._next(step, run)
            outcome = _outcome(step.output)
        except MontyCrashedError as error:
            outcome = Outcome(error=crash_error(error))
        except StuckError:
            outcome = Outcome(error=STUCK)
        except Exception as error:
            outcome = Outcome(error=failure_of(error, run.request.bindings, run.request.program))
        self._prints.drain()
        run.settle(outcome)

    async def _feed(self, run: Run) -> Any:
        request = run.request
        self._error_types = error_types(request.bindings)
        inputs: dict[str, Any] = {
            HOST_CALL: _host_call,
            "__dsh_names": [_speakable(binding.functions) for binding in request.bindings],
            "__dsh_capacity": self._config.max_output_bytes,
            "__dsh_frame": ARGUMENT_CHARACTERS,
        }
        source = prepare(request.program, request.bindings)
        return await self._session.feed_start(source, inputs=inputs, print_callback=self._prints.take)

    async def _next(self, step: Any, run: Run) -> Any:
        """Answer one suspension and go on to the next."""
        from pydantic_monty import AsyncFunctionSnapshot, AsyncNameLookupSnapshot

        if isinstance(step, AsyncFunctionSnapshot):
            return await (self._system(step, run) if step.is_os_function else self._call(step, run))
        if isinstance(step, AsyncNameLookupSnapshot):
            return await step.resume()  # a NameError in the program
        return await self._deliver(step)

    def _overflows(self, run: Run) -> bool:
        """Log what the program has printed before it does anything else: whether too much is no matter of timing."""
        self._prints.drain()
        return run.settled

    async def _system(self, step: AsyncFunctionSnapshot, run: Run) -> Any:
        """Let the program sleep; whatever else it wants of the system, it doesn't get."""
        name = step.function_name
        if name not in ("asyncio.sleep", "time.sleep"):
            told = None if self._moment is None else self._moment.answer(name, step.args)
            return await (step.resume_not_handled() if told is None else step.resume(cast("Any", told)))
        seconds = float(step.args[0]) if step.args else 0.0
        answers = self._answers
        if isinstance(answers, OrderedAnswers):
            await answers.wait_for_room()
            answers.sleep(step.call_id, _milliseconds(seconds), run)
            if name == "time.sleep":
                await answers.wait_for(step.call_id)
                return await step.resume({"return_value": None})
        elif name == "time.sleep":
            await asyncio.sleep(seconds)
            return await step.resume({"return_value": None})
        else:
            answers.begin(step.call_id)
            run.spawn(self._sleep(step.call_id, seconds))
        return await step.resume({"future": ...})

    async def _sleep(self, call_id: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._answers.put(call_id, NOTHING, None)

    async def _call(self, step: AsyncFunctionSnapshot, run: Run) -> Any:
        name = step.function_name
        if name != HOST_CALL or len(step.args) != 4:
            # A call of a name that nobody has defined arrives as a call, too.
            message = f"name '{name}' is not defined"
            return await step.resume({"exc_type": "NameError", "message": message})
        await self._answers.wait_for_room()
        self._answers.begin(step.call_id)
        self._invoke(step.call_id, step.args, run)
        return await step.resume({"future": ...})

    def _invoke(self, call_id: int, arguments: tuple[Any, ...], run: Run) -> None:
        space, name, value, fault = arguments

        def reply(answer: Answer, at: int | None) -> None:
            self._answers.put(call_id, self._settled(space, answer), at)

        if fault:
            refused: BindingRejection | None = BindingRejection(_FAULTS.get(fault, _LOSSY_ARGUMENTS))
        else:
            refused = run.call(space, name, lambda: snapshot(value), reply)
        if refused is not None:
            self._answers.refuse(call_id, self._settled(space, refused))

    def _settled(self, space: str, answer: Answer) -> Settled:
        """Put an answer as the interpreter takes it."""
        if not isinstance(answer, BindingRejection):
            try:
                return {"return_value": _crossing(answer)}
            except BindingRejection as rejection:
                answer = rejection
        message = answer.message.encode("utf-8", "backslashreplace").decode()
        return {"exc_type": self._error_types.get(space, "Exception"), "message": message}

    async def _deliver(self, step: AsyncFutureSnapshot) -> Any:
        """Hand over answers that the program waits for."""
        return await step.resume(cast("Any", await self._answers.take(set(step.pending_call_ids))))

    # ── the process ───────────────────────────────────────────────────────────

    def _hold(self, pid: int | None) -> None:
        """Keep the process by more than its number, and limit what it may use."""
        if pid is None:
            return
        self._process = psutil.Process(pid)
        memory = int(self._config.max_old_generation_size_mb * _MIB) + _ENGINE_BYTES
        seconds = math.ceil(self._config.compute_ms / 1000) + _CPU_GRACE_SECONDS
        if hasattr(self._process, "rlimit"):  # on Linux only
            self._process.rlimit(psutil.RLIMIT_DATA, (memory, memory))
            self._process.rlimit(psutil.RLIMIT_CPU, (seconds, seconds))

    async def _notice_end(self, run: Run) -> None:
        """Fail the run when the process ends while the program waits for the host."""
        if self._process is None:
            return
        pid = self._process.pid
        await wait_for_exit(pid)
        code = exit_code(pid)
        # A client that talks to the process hears of its end, too, and all that was printed before.
        await asyncio.sleep(_LAST_WORDS_SECONDS)
        self._prints.drain()
        run.fail(end_error(code))

    async def _close(self) -> None:
        if self._process is not None:
            with suppress(psutil.Error):
                self._process.kill()
        tasks = [task for task in (self._driver, self._watch) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # The interpreter's own objects are not seen by the garbage collector. A task that was cancelled keeps its
        # frames, which hold the last of them, which holds the run's context and the prints: let go of both ends.
        self._driver = self._watch = None
        self._prints.unbind()
        # The client complains of the killed process, and gives it up.
        with suppress(Exception):
            await self._session.__aexit__(None, None, None)
        if self._process is not None:
            await _reap(self._process)


async def _reap(process: psutil.Process) -> None:
    """Wait until a killed child is gone from the process table.

    The client reaps its children when it next hears of one; the last one would stay a zombie.
    """
    pause = 0.001
    while psutil.pid_exists(process.pid):
        with suppress(psutil.Error):
            if pause > 0.01 and process.status() == psutil.STATUS_ZOMBIE:
                _take_exit_status(process.pid)
        if not process.is_running():
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


def _take_exit_status(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _outcome(output: Any) -> Outcome:
    """Read what the last line of the program's wrapper gave."""
    if not isinstance(output, list) or len(cast("list[Any]", output)) != 2:
        return Outcome(error=_INVALID_OUTPUT)
    fault, value = cast("list[Any]", output)
    if fault == "large":
        return Outcome(over=True)
    if fault:
        return Outcome(error=_INVALID_OUTPUT)
    return Outcome() if value is None else Outcome(load=lambda: snapshot(value))


def _milliseconds(seconds: float) -> float:
    """Make a timer's length one that a host can keep; what is no number is no time at all."""
    return min(max(seconds * 1000, 0.0), LONGEST_SLEEP) if seconds == seconds else 0.0


def _crossing(value: JsonValue) -> Any:
    """Prepare a result for the interpreter, which takes plain containers and whole characters only."""
    if _has_surrogates(value):
        raise BindingRejection(f"{_LOSSY_RESULT}\nthis Python has no lone surrogates in strings")
    return thaw(value)


def _has_surrogates(root: JsonValue) -> bool:
    stack: list[JsonValue] = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if not value.isascii() and _SURROGATE.search(value):
                return True
        elif isinstance(value, dict):
            stack.extend(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return False


def _speakable(names: Iterable[str]) -> list[str]:
    """Leave out names with lone surrogates: no program of this interpreter can spell them."""
    return [name for name in names if not _SURROGATE.search(name)]
