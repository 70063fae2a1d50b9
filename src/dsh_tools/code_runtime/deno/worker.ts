// The inside of one run: the main module of a Deno process that has no permissions.
//
// It reads two lines from stdin, a greeting and later one program, and then the replies to the program's calls.
// It writes frames to stdout, one a line, each behind the greeting's nonce. The program shares this realm and may
// break every global and prototype in it. So whatever is used after its start was captured first, and nothing below
// relies on a property that a prototype could supply. The host checks each frame all the same.

import { stripTypeScriptTypes } from "node:module";
import { setImmediate } from "node:timers";
import { inspect } from "node:util";
import vm from "node:vm";

import {
  apply, AsyncFunction, bare, bytesBuffer, BytesClass, bytesLength, bytesOffset, create, decodeBytes, define,
  defineProperty, deleteProperty, encodeText, endsWith, ErrorClass, exit, freeze, indexOf, is, mapDelete, mapGet,
  mapSet, ownKeys, parse, preventDefault, PromiseClass, promiseThen, quote, readInput, readNow, replace, slice,
  split, startsWith, toText, wait, writeOutput,
} from "./captured.ts";
import { encode, member } from "./lossless.ts";
import { makeRepeatable, type Repeatable } from "./repeatable.ts";

// ── frames out, and the output ledger (the host keeps its own, which decides) ──
let [nonce, settled, capacity, spent, entries] = ["", false, 0, 2, 0];

const byteLength = (text: string): number => bytesLength(encodeText(text));
const excerpt = (text: string): string => (text.length > capacity ? slice(text, 0, capacity + 1) : text);

/** Write one frame; returns once the pipe has taken it, so that nothing said before a hang is lost. */
function post(frame: string): void {
  let bytes = encodeText(nonce + frame + "\n");
  for (;;) {
    const written = writeOutput(bytes);
    const rest = bytesLength(bytes) - written;
    if (rest === 0) return;
    bytes = new BytesClass(bytesBuffer(bytes), bytesOffset(bytes) + written, rest);
  }
}

/** Say the last word and stop the thread. The host ends the process. */
function settle(frame: string): never {
  settled = true;
  post(frame);
  for (;;) wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

function log(text: string): void {
  if (settled) return;
  const quoted = quote(excerpt(text));
  spent += byteLength(quoted) + (entries++ === 0 ? 0 : 1);
  const frame = '{"t":"log","text":' + quoted + "}";
  // Past the limit the run is over, and the program gets no turn to catch that.
  if (spent > capacity) settle(frame);
  post(frame);
}

/** End the run with a failure. A text that cannot fit is not sent: that it didn't fit is all to know. */
function fail(kind: string, message: string): never {
  if (message.length > capacity || spent + byteLength(quote(message)) > capacity) settle('{"t":"done","over":true}');
  settle('{"t":"done","error":{"kind":' + quote(kind) + ',"message":' + quote(message) + "}}");
}

// ── calls to the host ─────────────────────────────────────────────────────────
const pending = new Map<number, any>();
let [lastId, frameLimit, windowCalls, windowBytes, flying, flyingBytes] = [0, 0, 0, 0, 0, 0];
let [queueHead, queueTail]: any[] = [null, null];
/** What drives a repeatable program; null for an ordinary one. */
let repeatable: Repeatable | null = null;

function makeErrorClass(spec: { name: string; member: string }): any {
  const rejection = class extends ErrorClass {
    constructor(message: string, memberValue: string) {
      super(message);
      define(this, "name", spec.name, true);
      define(this, spec.member, memberValue, true);
      // The frames below are this file's: there is nothing of the program's to show.
      define(this, "stack", spec.name + ": " + message, false);
    }
  };
  define(rejection, "name", spec.name, false);
  define(rejection.prototype, "name", spec.name, false);
  return rejection;
}

/** Send calls as long as the window has room; the rest waits in this process's own memory. */
function pump(): void {
  while (queueHead !== null && (flying === 0 || (flying < windowCalls && flyingBytes + queueHead.size <= windowBytes))) {
    const call = queueHead;
    queueHead = call.next;
    flying += 1;
    flyingBytes += call.size;
    post(call.frame);
    call.frame = "";
  }
  listen();
}

function makeFunction(global: string, name: string, rejection: any) {
  const failure = (message: string) => (rejection === null ? new ErrorClass(message) : new rejection(message, name));
  const target = ',"ns":' + quote(global) + ',"name":' + quote(name);
  const enter = (args: unknown) =>
    new PromiseClass((resolve, reject) => {
      const encoded = encode(args, frameLimit);
      if (encoded.over) return reject(failure("binding arguments exceed " + frameLimit + " bytes"));
      if (encoded.lossy) return reject(failure("binding arguments must be lossless JSON"));
      const id = ++lastId;
      const frame = '{"t":"call","id":' + id + target + member("args", encoded) + "}";
      const entry = { resolve, reject, failure, frame, size: frame.length, next: null };
      mapSet(pending, id, entry);
      queueTail = queueHead === null ? (queueHead = entry) : (queueTail.next = entry);
      pump();
    });
  defineProperty(enter, "name", { value: name });
  return enter;
}

/** Give the program what a reply brings; false where nobody waits for it. */
function settleCall(line: string): boolean {
  const reply = parse(line);
  const call = mapGet(pending, reply.id);
  if (call === undefined) return repeatable !== null && repeatable.fire(reply.id, reply.at);
  mapDelete(pending, reply.id);
  flying -= 1;
  flyingBytes -= call.size;
  if (repeatable !== null) repeatable.moveClock(reply.at);
  reply.ok ? call.resolve(reply.value) : call.reject(call.failure(reply.message));
  return true;
}

// ── lines in ──────────────────────────────────────────────────────────────────
const [chunk, STREAMING] = [new Uint8Array(65536), bare({ stream: true })];
let [held, listening] = ["", false];

/** Feed the bytes that were read to `line`, one call for each complete line. */
function takeLines(count: number, line: (text: string) => void): void {
  const text = decodeBytes(new BytesClass(bytesBuffer(chunk), 0, count), STREAMING);
  let start = 0;
  for (let end; (end = indexOf(text, "\n", start)) >= 0; start = end + 1) {
    const whole = held + slice(text, start, end);
    held = "";
    line(whole);
  }
  held += slice(text, start);
}

// Replies are read only while a call waits for one: a read that is under way keeps the event loop alive. Without one,
// a loop that has nothing left to do ends, and so we notice a program that waits for something which cannot come.
// A read that blocks spares the way through another thread, and half of the time of a call. It comes after everything
// that the program has to do, rejections to be reported included, and only as long as nothing but a reply can wake it.
let onlyRepliesWake = true;

const waiting = (): boolean => flying > 0 || (repeatable !== null && repeatable.waiting());

function listen(): void {
  if (listening || !waiting()) return;
  listening = true;
  if (repeatable !== null) setImmediate(repeatable.step);
  else if (onlyRepliesWake) setImmediate(receiveNow);
  else promiseThen(readInput(chunk), receive);
}

function receiveNow(): void {
  onlyRepliesWake ? receive(readNow(chunk)) : promiseThen(readInput(chunk), receive);
}

function receive(count: number | null): void {
  if (count === null) exit(0); // the host is gone
  listening = false;
  takeLines(count!, settleCall);
  pump();
}

/** Make the program that starts next a repeatable one. */
function repeat(key: string, startedAt: number): void {
  const read = (take: (line: string) => void) => takeLines(readNow(chunk) ?? exit(0), take);
  const number = () => ++lastId;
  const stepped = () => {
    listening = false;
    pump();
  };
  const worker = { number, post, read, settle: settleCall, waiting, listen, stepped, fault };
  repeatable = makeRepeatable(bare(worker), key, startedAt);
}

/** Note the use of whatever wakes the program by another way than a reply. */
function noteUse(owner: any, ...names: any[]): void {
  for (const name of names) {
    const original = owner[name];
    const noted = { [name](...values: any[]) {
      onlyRepliesWake = false;
      return apply(original, this, values);
    } }[name];
    defineProperty(owner, name, { value: noted });
  }
}

// ── what a program sees ───────────────────────────────────────────────────────
const KEPT = new Set(`
  Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp
  Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError SuppressedError globalThis
  DisposableStack AsyncDisposableStack JSON Math Intl ArrayBuffer SharedArrayBuffer Atomics DataView Uint8Array
  Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array
  Float32Array Float64Array Map BigInt Set Iterator WeakMap WeakSet WeakRef Proxy Reflect FinalizationRegistry escape
  unescape decodeURI decodeURIComponent encodeURI encodeURIComponent eval isFinite isNaN Temporal setTimeout
  clearTimeout setInterval clearInterval queueMicrotask structuredClone URL URLSearchParams TextEncoder TextDecoder
  atob btoa crypto performance AbortController AbortSignal Event EventTarget DOMException`.trim().split(/\s+/));

/** Take every global away that is not promised to programs; Deno's own and Node's go with the rest. */
function sealGlobals(console: object): void {
  noteUse(globalThis, "setTimeout", "setInterval");
  noteUse(AbortSignal, "timeout");
  noteUse(Atomics, "waitAsync");
  noteUse(SubtleCrypto.prototype, ...ownKeys(SubtleCrypto.prototype).filter((key) => key !== "constructor" && typeof key === "string"));
  for (const key of ownKeys(globalThis)) {
    // What is keyed by a symbol marks the object as the event target that Deno reports errors to.
    if (typeof key === "symbol" || KEPT.has(key)) continue;
    if (!deleteProperty(globalThis, key)) defineProperty(globalThis, key, { value: undefined });
  }
  define(globalThis, "console", console, false);
  // What is left of Node's `process`: nothing to read, and a way to end the run.
  const end = (code: any): void => exit((settled = true) && code >> 0);
  const [argv, env, execArgv] = [freeze([]), freeze(create(null)), freeze([])];
  define(globalThis, "process", freeze({ __proto__: null, argv, env, execArgv, exit: end }), false);
}

function render(values: any[]): string {
  let line = "";
  for (let i = 0; i < values.length; i++) {
    let text = values[i];
    try {
      if (typeof text !== "string") text = inspect(text, bare({ depth: 4, maxArrayLength: 100, maxStringLength: 10000 }));
    } catch {
      text = "[uninspectable value]";
    }
    line += (i > 0 ? " " : "") + text;
  }
  return line;
}

// ── how a program ends ────────────────────────────────────────────────────────
const FOLDER = new URL(".", import.meta.url).href;

/** Turn what was thrown into text: with its stack, less this file's frames, or the message alone. */
function describe(error: any, withStack: boolean): string {
  try {
    if (!(error instanceof ErrorClass)) return toText(error);
    const stack = withStack ? error.stack : undefined;
    if (stack === undefined) return toText(error.message);
    const lines = split(toText(stack), "\n");
    let kept = lines[0];
    for (let i = 1; i < lines.length; i++) {
      if (indexOf(lines[i], FOLDER) < 0 && indexOf(lines[i], "ext:") < 0) kept += "\n" + lines[i];
    }
    return kept;
  } catch {
    return "program threw an unrenderable value";
  }
}

function complete(value: unknown): void {
  if (settled) return;
  if (value === undefined) settle('{"t":"done"}');
  const encoded = encode(value, capacity - spent);
  if (encoded.over || spent + byteLength(encoded.text) > capacity) settle('{"t":"done","over":true}');
  if (encoded.lossy) fail("invalid-output", "program completion must be lossless JSON");
  settle('{"t":"done"' + member("value", encoded) + "}");
}

/** End the run because something beside the program's own course has failed. */
function fault(error: unknown): void {
  if (!settled) settle('{"t":"fault","message":' + quote(excerpt(describe(error, false))) + "}");
}

// Registered before any listener of the program's, so these run first.
const report = (event: any, error: unknown) => {
  preventDefault(event);
  fault(error);
};
addEventListener("unhandledrejection", (event) => report(event, event.reason));
addEventListener("error", (event) => report(event, event.error));
addEventListener("beforeunload", () => settled || settle('{"t":"idle"}'));

// ── compiling ─────────────────────────────────────────────────────────────────
const [OPENING, CLOSING] = ["async function program() {\n", "\n}"];

/** Say what is wrong with a program that cannot be stripped, with the program's own line numbers. */
function syntaxMessage(error: unknown, source: string): string {
  let message = describe(error, false);
  if (startsWith(message, "[InvalidSyntax]")) {
    // The stripper does not say where; the transformer does. It runs nothing, either.
    message = "the program has syntax that type stripping does not know";
    try {
      stripTypeScriptTypes(source, { mode: "transform" });
    } catch (detail) {
      message = replace(describe(detail, false), "SyntaxError: ", "");
    }
  }
  const place = (_: string, line: string, column: string) => `program.ts:${+line - 1}:${column}`;
  message = replace(message, /file:\/\/\/stripTypeScriptTypes\.ts:(\d+):(\d+)/g, place);
  return "SyntaxError: " + replace(message, /^(\d+) \|/gm, (_: string, line: string) => `${+line - 1} |`);
}

/** Erase the types of a program, seen as the body of an async function, and make a function of it. */
function compile(program: string, names: string[]): any {
  const source = OPENING + program + CLOSING;
  let body = "";
  try {
    body = stripTypeScriptTypes(source, { mode: "strip" });
  } catch (error) {
    fail("exception", syntaxMessage(error, source));
  }
  if (!startsWith(body, OPENING) || !endsWith(body, CLOSING)) fail("exception", "SyntaxError: not a function body");
  body = '"use strict";\n' + slice(body, OPENING.length, body.length - CLOSING.length);
  try {
    // The body alone must parse: a program that closes the wrapper's brace early stops here.
    new AsyncFunction(...names, body);
    // Compiled by node:vm without a loader, neither the program nor anything it evaluates can import.
    const wrapper = "return async function (" + names.join(", ") + ") {" + body + "\n};";
    return vm.compileFunction(wrapper, [], { filename: "program.ts", lineOffset: -1 })();
  } catch (error) {
    fail("exception", "SyntaxError: " + describe(error, false));
  }
}

// ── the run ───────────────────────────────────────────────────────────────────
function start(line: string): void {
  const request = parse(line);
  ({ capacity, frameLimit, windowCalls, windowBytes } = request);
  const globals = new Map<string, any>();
  for (const { global, functions, error } of request.bindings) {
    const [rejection, namespace] = [error === null ? null : makeErrorClass(error), create(null)];
    for (const name of functions)
      defineProperty(namespace, name, { value: makeFunction(global, name, rejection), enumerable: true });
    globals.set(global, namespace);
    if (rejection !== null) globals.set(error.name, rejection);
  }
  const shim = create(null);
  for (const name of ["log", "info", "warn", "error", "debug"]) shim[name] = (...values: any[]) => log(render(values));
  globals.set("console", shim);
  const [names, values] = [[...globals.keys()], [...globals.values()]];
  const program = compile(request.program, names);
  sealGlobals(shim);
  if (typeof request.key === "string") repeat(request.key, request.startedAt);
  const thrown = (error: unknown) => settled || fail("exception", describe(error, true));
  promiseThen(apply(program, undefined, values), complete, thrown);
}

async function main(): Promise<void> {
  const lines: string[] = [];
  const read = async () => {
    while (lines.length === 0) takeLines((await readInput(chunk)) ?? exit(0), (line) => lines.push(line));
    return lines.shift()!;
  };
  const greeting = await read();
  // Whatever the first program would otherwise wait for happens once before.
  capacity = 1000;
  compile("try { const x: number = await f([1, 'b']); if (x) return -x + 1; } catch (e) { throw e as any }", ["f"]);
  render([{ a: [1] }, encode({ a: [1, "b", null, 1e21], c: { d: true } }, 1000)]);
  makeFunction("f", "f", makeErrorClass({ name: "E", member: "m" }));
  nonce = parse(greeting).nonce;
  post('{"t":"ready"}');
  start(await read());
}

main();
