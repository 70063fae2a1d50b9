"""What a deterministic program sees of time and chance, and what is hidden from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.repeatable import START, run_answered

from dsh_tools.code_runtime import (
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    DenoRuntime,
    MontyRuntime,
)

STUCK = "program is waiting for something that nothing pending can resolve"
DAY = 86_400_000


# ── the clock ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "reading",
    [
        "Date.now()",
        "new Date().getTime()",
        "+new (class extends Date {})()",
        "Date.parse(Date())",
        "performance.timeOrigin + performance.now()",
        "Temporal.Now.instant().epochMilliseconds",
        "Temporal.Now.zonedDateTimeISO().epochMilliseconds",
        "Temporal.Now.plainDateTimeISO('UTC').toZonedDateTime('UTC').epochMilliseconds",
        "Date.parse(`${Temporal.Now.plainDateISO()}T${Temporal.Now.plainTimeISO()}Z`)",
        "performance.timeOrigin + new Event('x').timeStamp",
        "Reflect.construct(Date, []).valueOf()",
        "new Date().constructor.now()",
        "performance.toJSON().timeOrigin + performance.now()",
    ],
)
async def test_every_clock_of_typescript_is_the_hosts(deno: DenoRuntime, reading: str):
    # D34: the start's time, then that of the last answer; None and the past change nothing, a reading 0.01 ms
    program = (
        f"const t = [{reading}];\nfor (let i = 0; i < 3; i++) {{ await tools.echo(i); t.push({reading}); }}\nreturn t;"
    )
    result = await run_answered(deno, program, (0, DAY), (1, None), (2, 5000))
    fraction = 0.01 if "performance" in reading else 0
    later = START + DAY
    assert result == CodeRunResult(
        [], [START, later, pytest.approx(later + fraction, 0, 1e-3), pytest.approx(later + 2 * fraction, 0, 1e-3)]
    )


async def test_formatting_no_date_formats_the_hosts_time(deno: DenoRuntime):
    program = """
const format = new Intl.DateTimeFormat("en", { dateStyle: "short", timeStyle: "medium", timeZone: "UTC" });
await tools.echo(0);
return [format.format(), format.formatToParts().map((part) => part.value).join(""), format.format(0), new Date(0).toISOString(),
  new Date(2020, 1, 2).getMonth(), new Date() instanceof Date, Date.length, Date.name, Date.UTC(2000, 0)];
"""
    result = await run_answered(deno, program, (0, DAY))
    shown = "11/15/23, 10:13:20 PM"
    assert result.value == [shown, shown, "1/1/70, 12:00:00 AM", "1970-01-01T00:00:00.000Z", 1, True, 7, "Date", 946684800000]  # fmt: skip


@pytest.mark.parametrize(
    "reading",
    [
        "time.time()",
        "time.time_ns() / 1e9",
        "time.monotonic() + start",
        "time.perf_counter() + start",
        "datetime.datetime.now(datetime.timezone.utc).timestamp()",
        "datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=5))).timestamp()",
        "datetime.datetime.now().replace(tzinfo=datetime.timezone.utc).timestamp()",
    ],
)
async def test_every_clock_of_python_is_the_hosts(monty: MontyRuntime, reading: str):
    # D34
    program = (
        f"import datetime, time\nstart = time.time()\nt = [{reading}]\n"
        f"for i in range(3):\n    await tools.echo(i)\n    t.append({reading})\nreturn t"
    )
    result = await run_answered(monty, program, (0, DAY), (1, None), (2, 5000))
    # The first reading is the one of `start`; each moves the clock on by 0.1 ms.
    later = (START + DAY) / 1000
    shown = [START / 1000 + 1e-4, later, later + 1e-4, later + 2e-4]
    assert result == CodeRunResult([], [pytest.approx(time, 0, 1e-6) for time in shown])


async def test_dates_of_python_are_the_hosts(monty: MontyRuntime):
    program = "import datetime, time\nawait tools.echo(0)\nreturn [str(datetime.date.today()), time.strftime('%Y-%m-%d %H:%M')]"
    shown = datetime.fromtimestamp((START + DAY) / 1000, UTC)
    assert (await run_answered(monty, program, (0, DAY))).value == [str(shown.date()), shown.strftime("%Y-%m-%d %H:%M")]


BUSY = {
    "typescript": """
const [t, p] = [Date.now(), performance.now()];
while (Date.now() - t < 30);
const seen = [Date.now() - t, Math.round(100 * (performance.now() - p)), Number.isInteger(Date.now())];
await tools.echo(0);
return [...seen, Date.now() - t, await tools.echo(1), Date.now() - t];
""",
    "python": """
import time
t, p = time.time(), time.perf_counter()
while time.time() - t < 0.03: pass
seen = [round(1000 * (time.time() - t)), round(10_000 * (time.perf_counter() - p)), True]
await tools.echo(0)
return [*seen, round(1000 * (time.time() - t)), await tools.echo(1), round(1000 * (time.time() - t))]
""",
}


async def test_a_busy_wait_ends_because_it_reads_the_clock(runtime: CodeRuntime):
    # D34: the number of readings decides; an answer's time counts where it is later, and the past never
    result = await run_answered(runtime, BUSY[runtime.language], (0, 7), (1, 70))
    hundredths = 3000 if runtime.language == "typescript" else 300
    assert result.error is None
    assert isinstance(result.value, list)
    assert result.value[0] == 30 and result.value[2:] == [True, 30, 1, 70]
    assert hundredths <= result.value[1] <= hundredths + 5  # type: ignore[operator]


async def test_no_sleep_is_shorter_than_it_was_to_be(runtime: CodeRuntime):
    # D34: the host counts from the last answer, the program from its last reading
    programs = {
        "typescript": """
const t = Date.now();
while (Date.now() - t < 20);
const before = performance.now();
await new Promise((wake) => setTimeout(wake, 50));
return performance.now() - before >= 50 && Date.now() - t;
""",
        "python": """
import asyncio, time
t = time.time()
while time.time() - t < 0.02: pass
before = time.perf_counter()
await asyncio.sleep(0.05)
return time.perf_counter() - before >= 0.05 and int(1000 * (time.time() - t))
""",
    }
    assert (await run_answered(runtime, programs[runtime.language], (0, 50))).value == 70
    assert (await run_answered(runtime, programs[runtime.language], (0, 90))).value == 90


async def test_an_event_has_one_time(deno: DenoRuntime):
    program = "const e = new Event('x'); performance.now(); return [e.timeStamp, e.timeStamp, new Event('y').timeStamp]"
    assert (await run_answered(deno, program)).value == [0.01, 0.01, 0.02]


# ── chance ────────────────────────────────────────────────────────────────────

CHANCE = {
    "typescript": """
const words = new Uint32Array(4), part = new Uint8Array(new ArrayBuffer(9), 2, 5);
if (crypto.getRandomValues(words) !== words) throw new Error("not the array");
crypto.getRandomValues(part);
return [Math.random(), crypto.randomUUID(), [...words], [...part], [...new Uint8Array(part.buffer)]];
""",
    "python": "import random\nreturn [random.random(), random.getrandbits(64), random.Random().random(), random.Random().random()]",
}


async def test_chance_comes_from_the_seed(runtime: CodeRuntime):
    # D34
    program = CHANCE[runtime.language]
    first, again, other = [(await run_answered(runtime, program, seed=seed)).value for seed in ("a1", "a1", "a2")]
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))  # type: ignore[arg-type]


async def test_random_values_look_as_they_should(deno: DenoRuntime):
    program = """
const uuids = Array.from({ length: 50 }, () => crypto.randomUUID());
const numbers = Array.from({ length: 4000 }, Math.random);
const bytes = crypto.getRandomValues(new Uint8Array(40000));
const faults = [];
for (const wrong of [new Float64Array(1), new Uint8Array(65537), [1], "x"])
  try { crypto.getRandomValues(wrong as any) } catch (error) { faults.push(error.name) }
const mean = numbers.reduce((sum, n) => sum + n) / numbers.length;
return [uuids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)), new Set(uuids).size,
  numbers.every((n) => n >= 0 && n < 1), Math.abs(mean - 0.5) < 0.05, new Set(bytes).size, faults];
"""
    result = await run_answered(deno, program)
    faults = ["TypeMismatchError", "QuotaExceededError", "TypeMismatchError", "TypeMismatchError"]
    assert result.value == [True, 50, True, True, 256, faults]


async def test_chance_is_chacha20(deno: DenoRuntime):
    # The first words under the key that the seed gives, counter and nonce zero; see RFC 8439, section 2.3
    import hashlib
    import struct

    def block(key: bytes) -> list[int]:
        state = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), 0, 0, 0, 0]
        words = list(state)

        def quarter(a: int, b: int, c: int, d: int) -> None:
            for to, by, other, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                words[to] = (words[to] + words[by]) & 0xFFFFFFFF
                word = words[other] ^ words[to]
                words[other] = ((word << bits) | (word >> (32 - bits))) & 0xFFFFFFFF

        for _ in range(10):
            for i in range(4):
                quarter(i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        return [(word + start) & 0xFFFFFFFF for word, start in zip(words, state, strict=True)]

    result = await run_answered(deno, "return [...crypto.getRandomValues(new Uint32Array(16))]", seed="5eed")
    assert result.value == block(hashlib.sha256(b"5eed").digest())


# ── what is hidden ────────────────────────────────────────────────────────────


async def test_what_nobody_can_order_is_not_there(deno: DenoRuntime):
    names = [
        "WeakRef",
        "FinalizationRegistry",
        "Atomics.waitAsync",
        "MessageChannel",
        "setImmediate",
        "performance.mark",
    ]
    names += [f"crypto.subtle.{name}" for name in ("generateKey", "encrypt", "deriveBits", "wrapKey")]
    program = f"return [{', '.join(f'typeof {name}' for name in names)}]"
    assert (await run_answered(deno, program)).value == ["undefined"] * len(names)
    ordinary = await deno.run(CodeRunRequest("return [typeof WeakRef, typeof crypto.subtle.generateKey, Date.now()]"))
    assert ordinary.value[:2] == ["function"] * 2  # type: ignore[index]
    assert ordinary.value[2] > START  # type: ignore[index, operator]


async def test_stacks_do_not_say_where_we_are_installed(deno: DenoRuntime):
    program = """const stacks = [new Error("here").stack];
await tools.echo({ get a() { stacks.push(new Error("within").stack); return 1; } });
setTimeout(() => stacks.push(new Error("timer").stack), 1);
await tools.echo(0);
const plain: any = {}; Error.captureStackTrace(plain); stacks.push(plain.stack);
return stacks;
"""
    stacks = (await run_answered(deno, program, (0, 1), (1, 2), (2, 3))).value
    assert isinstance(stacks, list)
    assert all("program.ts:" in stack and ".ts:" not in stack.replace("program.ts:", "") for stack in stacks)  # type: ignore[union-attr, operator]
    assert stacks[0] == "Error: here\n    at program.ts:1:17"


async def test_a_program_that_breaks_everything_is_still_driven(deno: DenoRuntime):
    program = """
for (const owner of [Map, Set, Promise, Array, Function, Uint8Array, String, Number, Object, AbortController])
  for (const name of Object.getOwnPropertyNames(owner.prototype))
    if (name !== "constructor") try { (owner.prototype as any)[name] = () => { throw new Error("broken") } } catch {}
Reflect.apply = Reflect.construct = JSON.parse = Math.floor = null as any;
const seen: any = {};
setTimeout(() => { seen.timer = Date.now(); }, 1);
await crypto.subtle.digest("SHA-256", new Uint8Array(1));
seen.call = await tools.echo(1);
seen.chance = [typeof crypto.randomUUID(), typeof Math.random(), crypto.getRandomValues(new Uint8Array(1)).length];
return seen;
"""
    result = await run_answered(deno, program, (0, 1), (1, 2))
    assert result == CodeRunResult([], {"timer": START + 1, "call": 1, "chance": ["string", "number", 1]})


# ── versions ──────────────────────────────────────────────────────────────────


async def test_a_version_names_interpreter_machine_and_worker(tmp_path: Any):
    other = tmp_path / "worker.ts"
    other.write_text("// another worker")
    versions = [DenoRuntime().version, DenoRuntime(worker=other).version, MontyRuntime().version]
    assert versions[0].startswith("deno ") and versions[2].startswith("monty ")
    assert versions[0].split("/")[0] == versions[1].split("/")[0]
    assert len(set(versions)) == 3
    assert versions[0] == DenoRuntime().version


async def test_a_binary_of_ones_own_is_asked_for_its_version(deno: DenoRuntime):
    from dsh_tools.errors import CodeRuntimeError

    assert DenoRuntime(deno=deno._deno).version.startswith("deno ")
    with pytest.raises(CodeRuntimeError, match="does not say its version"):
        _ = DenoRuntime(deno="/bin/false").version
