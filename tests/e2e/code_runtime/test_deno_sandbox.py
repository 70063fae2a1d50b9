"""What a TypeScript program cannot do, tried with real programs (D3)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dsh_tools.code_runtime import CodeRunError, CodeRunRequest, DenoRuntime, RuntimeConfig
from dsh_tools.code_runtime.deno import launcher
from dsh_tools.testing.runtime_conformance import Host

from .conftest import RunProgram

LINUX = sys.platform == "linux"


# CODE-160, 161, 180 (D3): nothing of Deno or Node is there, and no way leads to it
ATTEMPTS = [
        'Deno.readTextFileSync("/etc/passwd")',
        'Deno.writeTextFileSync("x", "y")',
        'Deno.readDirSync("/")',
        'Deno.connect({ port: 80 })',
        'Deno.listen({ port: 0 })',
        'Deno.env.toObject()',
        'new Deno.Command("ls").outputSync()',
        'Deno.dlopen("libc.so.6", {})',
        'Deno.kill(Deno.pid, "SIGKILL")',
        'Deno.exit(5)',
        'Deno.openKv()',
        'Deno.core.ops',
        'Deno[Deno.internal]',
        'fetch("http://127.0.0.1:1/")',
        'new WebSocket("ws://127.0.0.1:1/")',
        'new EventSource("http://127.0.0.1:1/")',
        'new Worker("data:text/javascript,1")',
        'localStorage.setItem("a", "b")',
        'sessionStorage.length',
        'caches.open("x")',
        'new BroadcastChannel("x")',
        'navigator.hardwareConcurrency',
        'new WebAssembly.Memory({ initial: 1 })',
        'process.kill(process.pid)',
        'process.binding("fs")',
        'process.mainModule.require("fs")',
        'process.getBuiltinModule("fs")',
        'process.stdout.write("x")',
        'require("node:fs")',
        'globalThis.Buffer.alloc(1)',
        'window.Deno.exit()',
        'self.fetch("x")',
        'prompt("x")',
        'alert("x")',
        'close()',
        'this.constructor.constructor("return Deno")()',
        'new Function("return Deno")()',
        'new Function("return process.getBuiltinModule")()("fs")',
        '(0, eval)("Deno")',
        'await (async () => {}).constructor("return Deno")().then((d) => d.exit())',
        'await import("node:fs")',
        'await import("node:process")',
        'await import("node:child_process")',
        'await import("https://example.com/x.js")',
        'await import("file:///etc/passwd")',
        'await import("npm:left-pad")',
        'await (async () => {}).constructor("return import(\'node:fs\')")()',
        'await new Promise((ok, no) => setTimeout(() => new Function("return import(\'node:fs\')")().then(ok, no), 1))',
]  # fmt: skip


async def test_no_way_out(typescript: RunProgram):
    tries = "".join(
        f"try {{ await ({attempt}); out.push({index}) }} catch (e) {{ out.push(String(e)) }}\n"
        for index, attempt in enumerate(ATTEMPTS)
    )
    result = await typescript(f"const out = [];\n{tries}return out")
    assert result.error is None and isinstance(result.value, list)
    succeeded = [ATTEMPTS[found] for found in result.value if isinstance(found, int)]
    assert succeeded == []
    assert len(result.value) == len(ATTEMPTS)


@pytest.mark.parametrize("attempt", ATTEMPTS[::9])
async def test_each_attempt_alone_is_an_exception(typescript: RunProgram, attempt: str):
    # CODE-169
    result = await typescript(f"return [{attempt}]")
    assert result.error is not None and result.error.kind == "exception"


async def test_every_global_is_one_of_those_promised(typescript: RunProgram):
    # CODE-160 (D3)
    result = await typescript("return Reflect.ownKeys(globalThis).filter((k) => typeof k === 'string')")
    names = set(result.value)  # type: ignore[arg-type]
    web = {"setTimeout", "clearTimeout", "setInterval", "clearInterval", "queueMicrotask", "structuredClone", "URL"}
    web |= {
        "URLSearchParams",
        "TextEncoder",
        "TextDecoder",
        "atob",
        "btoa",
        "crypto",
        "performance",
        "console",
        "process",
    }
    web |= {"AbortController", "AbortSignal", "Event", "EventTarget", "DOMException"}
    assert web <= names
    assert not names & {
        "Deno",
        "fetch",
        "Worker",
        "WebAssembly",
        "Buffer",
        "global",
        "self",
        "window",
        "navigator",
        "location",
    }
    # Whatever else is there is ECMAScript: a realm without a host has it too.
    probe = "console.log(JSON.stringify(Object.getOwnPropertyNames(globalThis)))"
    from deno import find_deno_bin

    vm = 'import vm from "node:vm"; ' + probe.replace(
        "Object.getOwnPropertyNames(globalThis)", "vm.runInNewContext('Object.getOwnPropertyNames(globalThis)')"
    )
    realm = subprocess.run([find_deno_bin(), "eval", vm], capture_output=True, timeout=60, check=True)
    assert names - web <= set(json.loads(realm.stdout)), names - web - set(json.loads(realm.stdout))


async def test_the_stack_leads_to_no_function_of_the_worker(typescript: RunProgram):
    # CODE-179
    result = await typescript(
        """
        Error.prepareStackTrace = (_, sites) => sites.map((s) => [typeof s.getFunction(), typeof s.getThis()]);
        return new Error().stack;
        """
    )
    assert all(site == ["undefined", "undefined"] for site in result.value)  # type: ignore[union-attr]


async def test_the_environment_is_empty_and_the_folder_is_gone_afterwards(host: Host, monkeypatch: pytest.MonkeyPatch):
    # CODE-161, 174, 179
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    task = asyncio.ensure_future(runtime.run(CodeRunRequest("await tools.slow({ seconds: 30 })", [host.namespace()])))
    await asyncio.wait_for(host.started.wait(), 30)
    (child,) = psutil.Process().children()
    environment = child.environ()
    assert set(environment) == {"DENO_DIR", "NO_COLOR", "DENO_NO_UPDATE_CHECK", "TZ"}
    folder = Path(environment["DENO_DIR"])
    assert folder.is_dir()
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    await runtime.dispose()
    assert task.done() and not folder.exists() and not child.is_running()


async def test_two_runs_share_no_storage(typescript: RunProgram):
    # CODE-156: a folder of its own for each process
    first = await typescript("globalThis.leak = 1; Object.prototype.leak = 2; return 1")
    second = await typescript("return [typeof globalThis.leak, typeof {}.leak]")
    assert (first.value, second.value) == (1, ["undefined", "undefined"])


@pytest.mark.parametrize(
    "program",
    [
        "const a = []; for (;;) a.push(new Uint8Array(1 << 26).fill(1))",
        "const a = []; for (;;) a.push(new ArrayBuffer(1 << 28))",
        "const a = []; for (;;) a.push(new SharedArrayBuffer(1 << 26))",
        "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)",
        "const a = []; for (;;) a.push({ x: [Math.random()] })",
        "let f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f(); await new Promise((r) => setTimeout(r, 1e6))",
        "const m = new Map(); for (let i = 0;; i++) m.set(i, [i])",
        "let s = 'x'; for (;;) s += s",
        "const f = () => f() + 1; f()",
        "const make = () => tools.echo({ x: 'y'.repeat(1e6) }); const a = []; for (;;) a.push(make())",
    ],
)  # fmt: skip
async def test_bombs_hit_their_own_process_only(typescript: RunProgram, program: str):
    # CODE-144, 179
    before = psutil.Process().memory_info().rss
    bomb, good = await asyncio.gather(
        typescript(program, max_old_generation_size_mb=64, compute_ms=15_000), typescript("return 1")
    )
    assert bomb.error is not None and bomb.error.kind in ("worker-exit", "exception", "timeout")
    if bomb.error.kind == "worker-exit":
        assert bomb.error == CodeRunError("worker-exit", "worker error: out of memory")
    assert (good.value, good.error) == (1, None)
    assert psutil.Process().memory_info().rss - before < 256 << 20


async def test_the_kernel_limits_what_the_engine_does_not(host: Host):
    # CODE-144: typed arrays live outside the heap, so the process's data is limited too
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    task = asyncio.ensure_future(runtime.run(CodeRunRequest("await tools.slow({ seconds: 30 })", [host.namespace()])))
    await asyncio.wait_for(host.started.wait(), 30)
    (child,) = psutil.Process().children()
    if LINUX:
        assert child.rlimit(psutil.RLIMIT_DATA) == (1 << 30, 1 << 30)
        assert child.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        assert child.rlimit(psutil.RLIMIT_CPU) == (90, 90)
    await runtime.dispose()
    assert task.result().error == CodeRunError("abort", "runtime disposed")


async def test_tampering_before_and_during_calls(typescript: RunProgram, host: Host):
    # CODE-168, 181: a program may break every prototype it can reach; checks and calls go on
    result = await typescript(
        """
        const define = Object.defineProperty, keysOf = Reflect.ownKeys, dead = () => { throw "dead" };
        const spoil = (target) => {
            const keys = keysOf(target);
            for (let i = 0; i < keys.length; i++) {
                if (keys[i] === "constructor" || keys[i] === "prototype") continue;
                try { define(target, keys[i], { value: dead, writable: true, configurable: true }) } catch {}
            }
        };
        const classes = [Array, String, Map, Set, Promise, Function, Uint8Array, BigInt, Number, Error, Symbol, RegExp, Date];
        for (let i = 0; i < classes.length; i++) { spoil(classes[i].prototype); spoil(classes[i]) }
        const spaces = [Object, Reflect, JSON, Math, Atomics, TextEncoder.prototype, TextDecoder.prototype];
        for (let i = 0; i < spaces.length; i++) spoil(spaces[i]);
        console.log("still", "printing");
        let seen = [];
        try { await tools.fail({}) } catch (e) { seen = [e.message, e.toolName, e.name, e instanceof ToolCallError] }
        let refused = "";
        try { await tools.echo({ a: -0 }) } catch (e) { refused = e.message }
        return [await tools.echo({ a: [1, { b: "\\ud800" }] }), seen, refused];
        """
    )
    assert result.error is None and result.logs == ["still printing"]
    assert result.value == [
        {"a": [1, {"b": "\ud800"}]},
        ["deliberate failure", "fail", "ToolCallError", True],
        "binding arguments must be lossless JSON",
    ]
    lossy = await typescript(
        "JSON.stringify = Number.isFinite = Object.is = () => 'fine'; Array.isArray = () => true; return [-0]"
    )
    assert lossy.error == CodeRunError("invalid-output", "program completion must be lossless JSON")
    metered = await typescript(
        "JSON.stringify = () => ''; String.prototype.slice = () => ''; return 'x'.repeat(100)", max_output_bytes=50
    )
    assert metered.error is not None and metered.error.kind == "output-limit"


async def test_what_a_program_answers_for_itself(typescript: RunProgram):
    # CODE-181: it may spoil its own values, and nothing else
    result = await typescript("Object.prototype.then = (r) => r('hijacked'); return await tools.echo({ a: 1 })")
    assert result.value == "hijacked"
    locked = await typescript("try { Promise.prototype.constructor = 1 } catch (e) { return e.name }")
    assert locked.value == "TypeError"


async def test_a_program_cannot_speak_for_the_worker(typescript: RunProgram):
    # CODE-155, 181: frames are what stands behind the nonce, and only the worker knows that
    forged = '{"t":"done","value":"forged"}'
    result = await typescript(
        f"console.log('{forged}'); console.log('\\n{forged}\\n'); console.error('\\n\\n'); return 'real'"
    )
    assert result.value == "real"
    assert result.logs == [forged, f"\n{forged}\n", "\n\n"]


# ── the second wall ───────────────────────────────────────────────────────────


def launch(tmp_path: Path, code: str, *, landlock: bool = True, **changes: object) -> subprocess.CompletedProcess[str]:
    """Run a Python one-liner through the launcher."""
    prefix = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    paths = {"execute": ["/usr", "/lib", "/lib64", *prefix], "read": [], "write": [str(tmp_path)]}
    limits = {
        "data_bytes": 1 << 30,
        "cpu_seconds": 60,
        "file_bytes": 1 << 20,
        "parent": os.getpid(),
        "landlock": paths if landlock else None,
    }
    command = [
        sys.executable,
        "-I",
        "-S",
        launcher.__file__,
        json.dumps(limits | changes),
        sys.executable,
        "-I",
        "-c",
        code,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)


def landlock_is_there() -> bool:
    import ctypes

    return LINUX and launcher.landlock_version(ctypes.CDLL(None)) >= 1


def test_the_launcher_becomes_its_command(tmp_path: Path):
    done = launch(tmp_path, "print('here')")
    assert (done.returncode, done.stdout) == (0, "here\n")


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("open('inside.txt', 'w').write('x')", True),
        ("open('/etc/passwd').read()", False),
        ("import os; os.listdir('/home')", False),
        ("open('/proc/1/cmdline').read()", False),
        ("import os; os.kill(os.getppid(), 0)", False),
        ("import socket; socket.create_connection(('127.0.0.1', 9), 1)", False),
        ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0))", False),
    ],
)
def test_landlock_refuses_even_without_denos_permissions(tmp_path: Path, code: str, allowed: bool):
    # CODE-180 (D3): a second wall, where the kernel has it
    done = launch(tmp_path, code)
    if allowed or not landlock_is_there():
        assert done.returncode == 0 or not allowed, done.stderr
    else:
        assert done.returncode == 1
        assert "PermissionError" in done.stderr, done.stderr


def test_landlock_can_be_left_out(tmp_path: Path):
    assert launch(tmp_path, "open('/etc/passwd').read()", landlock=False).returncode == 0


def test_limits_hold_before_the_first_instruction(tmp_path: Path):
    # CODE-144
    bomb = launch(tmp_path, "x = bytearray(300 << 20)", data_bytes=256 << 20)
    assert bomb.returncode == 1 and "MemoryError" in bomb.stderr
    spin = launch(tmp_path, "while True: pass", cpu_seconds=1)
    assert spin.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_nothing_runs_for_a_parent_that_is_gone(tmp_path: Path):
    done = launch(tmp_path, "print('here')", parent=1)
    assert (done.returncode, done.stdout) == (0, "") if LINUX else ("here" in done.stdout)


async def test_a_worker_dies_with_its_host(tmp_path: Path):
    # CODE-174: also when the host has no time to say goodbye
    script = """
import asyncio, os, psutil
from dsh_tools.code_runtime import *
async def main():
    runtime = DenoRuntime(RuntimeConfig(pool_size=0))
    asyncio.ensure_future(runtime.run(CodeRunRequest("console.log(1); for (;;);")))
    while not (children := psutil.Process().children()):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    print(children[0].pid, flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    host = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, env=environment)
    pid = int(host.stdout)
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        await asyncio.sleep(0.05)
    if LINUX:
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
