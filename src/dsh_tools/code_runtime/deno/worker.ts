// The inside of one run: this file is the main module of a Deno process that has no permissions.
//
// It reads two lines from stdin, a greeting and later one program, and then the replies to the
// program's calls. It writes frames to stdout, one a line, each behind the greeting's nonce.
// The program shares this realm and may break every global and prototype in it. So everything
// used after its start is captured here first, and nothing below relies on a property that a
// prototype could supply. The host still checks each frame: this side is convenience, not trust.

import { stripTypeScriptTypes } from "node:module";
import { inspect } from "node:util";
import vm from "node:vm";

// deno-lint-ignore-file no-explicit-any

// ── captured intrinsics ───────────────────────────────────────────────────────

// deno-lint-ignore ban-types
type AnyFunction = Function;

const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { create, freeze, hasOwn, setPrototypeOf } = Object;
const { isArray } = Array;
const { isInteger } = Number;
const { is } = Object;
const { abs } = Math;
const { parse, stringify } = JSON;
const { bind, call } = Function.prototype;

/** Turn a method into a function of its receiver, which no later change to a prototype can redirect. */
const uncurry = apply(bind, bind, [call]) as (method: AnyFunction) => (self: unknown, ...args: any[]) => any;

const getter = (prototype: object, name: string) => uncurry(getOwnPropertyDescriptor(prototype, name)!.get!);

const ObjectPrototype = Object.prototype;
const ArrayPrototype = Array.prototype;
const PromiseClass = Promise;
const ErrorClass = Error;
const SyntaxErrorClass = SyntaxError;
const BigIntFunction = BigInt;
const StringFunction = String;
const Bytes = Uint8Array;
const AsyncFunction = getPrototypeOf(async function () {})!.constructor as new (...parts: string[]) => unknown;
const bigIntText = uncurry(BigInt.prototype.toString);
const bytesBuffer = getter(getPrototypeOf(Uint8Array.prototype)!, "buffer");
const bytesOffset = getter(getPrototypeOf(Uint8Array.prototype)!, "byteOffset");
const bytesLength = getter(getPrototypeOf(Uint8Array.prototype)!, "length");
const charCodeAt = uncurry(String.prototype.charCodeAt);
const endsWith = uncurry(String.prototype.endsWith);
const indexOf = uncurry(String.prototype.indexOf);
const replace = uncurry(String.prototype.replace);
const slice = uncurry(String.prototype.slice);
const split = uncurry(String.prototype.split);
const startsWith = uncurry(String.prototype.startsWith);
const promiseThen = uncurry(Promise.prototype.then);
const mapDelete = uncurry(Map.prototype.delete);
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const setAdd = uncurry(Set.prototype.add);
const setDelete = uncurry(Set.prototype.delete);
const setHas = uncurry(Set.prototype.has);
const preventDefault = uncurry(Event.prototype.preventDefault);
const { wait } = Atomics;

const encodeText = apply(bind, TextEncoder.prototype.encode, [new TextEncoder()]) as (text: string) => Uint8Array;
const decodeBytes = apply(bind, TextDecoder.prototype.decode, [new TextDecoder()]) as (
  bytes: Uint8Array,
  options: { stream: boolean },
) => string;
const readInput = apply(bind, Deno.stdin.read, [Deno.stdin]) as (into: Uint8Array) => Promise<number | null>;
const writeOutput = apply(bind, Deno.stdout.writeSync, [Deno.stdout]) as (bytes: Uint8Array) => number;
const exit = Deno.exit;
const ownUrl = import.meta.url;

// With these two fixed, awaiting a native promise never runs code of the program's.
defineProperty(Promise.prototype, "constructor", { value: Promise, writable: false, configurable: false });
defineProperty(Promise, Symbol.species, { configurable: false });

/** A record without a prototype: reading or writing it never reaches a tampered one. */
const record = <T extends object>(value: T): T => setPrototypeOf(value, null);

// ── frames out ────────────────────────────────────────────────────────────────

let nonce = "";
let settled = false;

/** Write one frame; returns once the pipe has taken it, so that nothing said before a hang is lost. */
function post(frame: string): void {
  let bytes = encodeText(nonce + frame + "\n");
  for (;;) {
    const length = bytesLength(bytes);
    let written = 0;
    try {
      written = writeOutput(bytes);
    } catch {
      // The host has closed its end: there is nobody left to run for.
      exit(0);
    }
    if (written >= length) return;
    bytes = new Bytes(bytesBuffer(bytes), bytesOffset(bytes) + written, length - written);
  }
}

const quote = (text: string): string => stringify(text);
const byteLength = (text: string): number => bytesLength(encodeText(text));

/** Say the last word and stop the thread. The host ends the process. */
function settle(frame: string): never {
  settled = true;
  post(frame);
  for (;;) wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

// ── the output ledger (the host keeps its own, which decides) ─────────────────

let capacity = 0;
let spent = 2;
let entries = 0;

function log(text: string): void {
  if (settled) return;
  const excerpt = text.length > capacity ? slice(text, 0, capacity + 1) : text;
  const quoted = quote(excerpt);
  spent += byteLength(quoted) + (entries === 0 ? 0 : 1);
  entries += 1;
  const frame = '{"t":"log","text":' + quoted + "}";
  // Past the limit the run is over, and the program gets no turn to catch that.
  if (spent > capacity) settle(frame);
  post(frame);
}

function fail(kind: string, message: string): never {
  // A text that cannot fit is not sent: the host only needs to know that it didn't fit.
  if (message.length > capacity || spent + byteLength(quote(message)) > capacity) settle('{"t":"done","over":true}');
  settle('{"t":"done","error":{"kind":' + quote(kind) + ',"message":' + quote(message) + "}}");
}

// ── lossless JSON ─────────────────────────────────────────────────────────────

interface Frame {
  node: any;
  keys: any;
  length: number;
  index: number;
  parent: Frame | null;
}

interface Encoded {
  text: string;
  depth: number;
  lossy: boolean;
  over: boolean;
}

/** Open a container for reading, or return null when it is not a plain one. May throw: proxies run code. */
function openContainer(node: any, parent: Frame | null): Frame | null {
  const prototype = getPrototypeOf(node);
  const keys = ownKeys(node) as any;
  if (isArray(node)) {
    const length = node.length;
    if (prototype !== ArrayPrototype || keys.length !== length + 1) return null;
    return record({ node, keys: null, length, index: 0, parent });
  }
  if (prototype !== ObjectPrototype && prototype !== null) return null;
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string" || !getOwnPropertyDescriptor(node, keys[i])!.enumerable) return null;
  }
  return record({ node, keys, length: keys.length, index: 0, parent });
}

function numberText(value: number): string {
  return isInteger(value) && abs(value) > 9007199254740991 && abs(value) < 1e21
    ? bigIntText(BigIntFunction(value))
    : "" + value;
}

/**
 * Write a value as JSON text, reading each slot once, with no recursion. A value that is not lossless
 * is read on for its size: being too large takes precedence.
 */
function encode(root: unknown, limit: number): Encoded {
  const result: Encoded = record({ text: "", depth: 0, lossy: false, over: false });
  const ancestors = new Set();
  let out = "";
  let depth = 0;
  let frame: Frame | null = null;
  let value: any = root;
  for (;;) {
    const kind = typeof value;
    if (value === null) out += "null";
    else if (kind === "string") out += value.length > limit ? value : quote(value);
    else if (kind === "number" && value - value === 0 && !is(value, -0)) out += numberText(value);
    else if (kind === "boolean") out += value ? "true" : "false";
    else {
      let opened: Frame | null = null;
      try {
        if (kind === "object" && !setHas(ancestors, value)) opened = openContainer(value, frame);
      } catch {
        opened = null;
      }
      if (opened === null) result.lossy = true;
      else {
        frame = opened;
        setAdd(ancestors, value);
        out += frame.keys === null ? "[" : "{";
        depth += 1;
        if (depth > result.depth) result.depth = depth;
      }
    }
    if (out.length > limit) {
      result.over = true;
      return result;
    }
    for (;;) {
      if (frame === null) {
        result.text = out;
        return result;
      }
      if (frame.index < frame.length) {
        const index: number = frame.index++;
        if (index > 0) out += ",";
        const key: any = frame.keys === null ? index : frame.keys[index];
        if (frame.keys !== null) out += quote(key) + ":";
        try {
          if (frame.keys === null && !hasOwn(frame.node, key)) result.lossy = true;
          value = frame.node[key];
        } catch {
          value = undefined;
        }
        break;
      }
      out += frame.keys === null ? "]" : "}";
      setDelete(ancestors, frame.node);
      depth -= 1;
      frame = frame.parent;
    }
  }
}

/** The member of a frame that carries a value; deep ones travel as text, which needs no deep parser. */
function member(name: string, encoded: Encoded): string {
  return encoded.depth > 100 ? ',"deep":' + quote(encoded.text) : ',"' + name + '":' + encoded.text;
}

// ── calls to the host ─────────────────────────────────────────────────────────

interface ErrorSpec {
  name: string;
  member: string;
}

type Rejection = new (message: string, memberValue: string) => Error;

interface Call {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  failure: (message: string) => Error;
  frame: string;
  size: number;
  next: Call | null;
}

const pending = new Map<number, Call>();
let lastId = 0;
let frameLimit = 0;
let windowCalls = 0;
let windowBytes = 0;
let flying = 0;
let flyingBytes = 0;
let queueHead: Call | null = null;
let queueTail: Call | null = null;

function makeErrorClass(spec: ErrorSpec): Rejection {
  const rejection = class extends ErrorClass {
    constructor(message: string, memberValue: string) {
      super(message);
      const own = (value: string) => record({ value, enumerable: true, writable: true, configurable: true });
      defineProperty(this, "name", own(spec.name));
      defineProperty(this, spec.member, own(memberValue));
      // The frames below are this file's: there is nothing of the program's to show.
      defineProperty(this, "stack", record({ value: spec.name + ": " + message, writable: true, configurable: true }));
    }
  };
  defineProperty(rejection, "name", { value: spec.name, configurable: true });
  defineProperty(rejection.prototype, "name", { value: spec.name, writable: true, configurable: true });
  return rejection;
}

/** Send calls as long as the window has room; the rest waits in this process's own memory. */
function pump(): void {
  while (queueHead !== null && (flying === 0 || (flying < windowCalls && flyingBytes + queueHead.size <= windowBytes))) {
    const call: Call = queueHead;
    queueHead = call.next;
    if (queueHead === null) queueTail = null;
    flying += 1;
    flyingBytes += call.size;
    post(call.frame);
    call.frame = "";
  }
  listen();
}

function makeFunction(global: string, name: string, rejection: Rejection | null) {
  const failure = (message: string): Error =>
    rejection === null ? new ErrorClass(message) : new rejection(message, name);
  const target = ',"ns":' + quote(global) + ',"name":' + quote(name);
  const enter = (args: unknown) =>
    new PromiseClass((resolve, reject) => {
      const encoded = encode(args, frameLimit);
      if (encoded.over) return reject(failure("binding arguments exceed " + frameLimit + " bytes"));
      if (encoded.lossy) return reject(failure("binding arguments must be lossless JSON"));
      const id = ++lastId;
      const frame = '{"t":"call","id":' + id + target + member("args", encoded) + "}";
      const entry: Call = record({ resolve, reject, failure, frame, size: frame.length, next: null });
      mapSet(pending, id, entry);
      if (queueTail === null) queueHead = entry;
      else queueTail.next = entry;
      queueTail = entry;
      pump();
    });
  defineProperty(enter, "name", { value: name });
  return enter;
}

function settleCall(line: string): void {
  const reply = parse(line);
  const call: Call | undefined = mapGet(pending, reply.id);
  if (call === undefined) return;
  mapDelete(pending, reply.id);
  flying -= 1;
  flyingBytes -= call.size;
  if (reply.ok) call.resolve(reply.value);
  else call.reject(call.failure(reply.message));
}

// ── lines in ──────────────────────────────────────────────────────────────────

const chunk = new Uint8Array(65536);
let held = "";
let listening = false;
let closed = false;

/** Feed the bytes that were read to `line`, one call for each complete line. */
function takeLines(count: number, line: (text: string) => void): void {
  const text = decodeBytes(new Bytes(bytesBuffer(chunk), 0, count), record({ stream: true }));
  let start = 0;
  for (;;) {
    const end = indexOf(text, "\n", start);
    if (end < 0) break;
    const whole = held + slice(text, start, end);
    held = "";
    start = end + 1;
    line(whole);
  }
  held += slice(text, start);
}

/**
 * Read replies, but only while a call waits for one. A read that is under way keeps the event loop
 * alive; without one, a loop that has nothing left to do ends, and that is how we notice a program
 * that waits for something which cannot come.
 */
function listen(): void {
  if (listening || closed || flying === 0) return;
  listening = true;
  promiseThen(
    readInput(chunk),
    (count: number | null) => {
      listening = false;
      if (count === null) {
        closed = true;
        return;
      }
      takeLines(count, settleCall);
      pump();
    },
    () => {
      closed = true;
    },
  );
}

// ── what a program sees ───────────────────────────────────────────────────────

const KEPT = new Set([
  ..."Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date".split(" "),
  ..."Promise RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError".split(" "),
  ..."URIError SuppressedError DisposableStack AsyncDisposableStack globalThis JSON Math Intl".split(" "),
  ..."ArrayBuffer SharedArrayBuffer Atomics DataView Uint8Array Int8Array Uint16Array Int16Array".split(" "),
  ..."Uint32Array Int32Array BigUint64Array BigInt64Array Uint8ClampedArray Float16Array".split(" "),
  ..."Float32Array Float64Array Map BigInt Set Iterator WeakMap WeakSet WeakRef Proxy Reflect".split(" "),
  ..."FinalizationRegistry decodeURI decodeURIComponent encodeURI encodeURIComponent escape".split(" "),
  ..."unescape eval isFinite isNaN Temporal".split(" "),
  ..."setTimeout clearTimeout setInterval clearInterval queueMicrotask structuredClone".split(" "),
  ..."URL URLSearchParams TextEncoder TextDecoder atob btoa crypto performance".split(" "),
  ..."AbortController AbortSignal Event EventTarget DOMException".split(" "),
]);

/** Take every global away that is not promised to programs; Deno's own and Node's go with the rest. */
function sealGlobals(): void {
  for (const key of ownKeys(globalThis)) {
    // What is keyed by a symbol marks the object as the event target that Deno reports errors to.
    if (typeof key === "symbol" || KEPT.has(key)) continue;
    if (!deleteProperty(globalThis, key)) {
      defineProperty(globalThis, key, { value: undefined });
    }
  }
}

function render(values: unknown[]): string {
  let line = "";
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (i > 0) line += " ";
    if (typeof value === "string") line += value;
    else {
      try {
        line += inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: 10000 });
      } catch {
        line += "[uninspectable value]";
      }
    }
  }
  return line;
}

function makeConsole(): object {
  const shim = create(null);
  for (const name of ["log", "info", "warn", "error", "debug"]) {
    shim[name] = (...values: unknown[]) => log(render(values));
  }
  return shim;
}

/** What is left of Node's `process`: nothing to read, and a way to end the run. */
function makeProcess(): object {
  return freeze({
    __proto__: null,
    argv: freeze([]),
    env: freeze(create(null)),
    execArgv: freeze([]),
    exit: (code?: unknown): never => {
      settled = true;
      exit((code as number) >> 0);
    },
  });
}

// ── how a program ends ────────────────────────────────────────────────────────

/** Leave this file's own frames out of a stack: they tell a reader nothing about the program. */
function withoutOwnFrames(stack: string): string {
  const lines = split(stack, "\n");
  let kept = lines[0];
  for (let i = 1; i < lines.length; i++) {
    const inside = indexOf(lines[i], ownUrl) >= 0 || indexOf(lines[i], "(ext:") >= 0 || indexOf(lines[i], "at ext:") >= 0;
    if (!inside) kept += "\n" + lines[i];
  }
  return kept;
}

function describe(error: unknown): string {
  try {
    if (error instanceof ErrorClass) {
      const stack = error.stack;
      if (stack === undefined) return StringFunction(error.message);
      return withoutOwnFrames(StringFunction(stack));
    }
    return StringFunction(error);
  } catch {
    return "program threw an unrenderable value";
  }
}

function brief(error: unknown): string {
  try {
    return StringFunction(error instanceof ErrorClass ? error.message : error);
  } catch {
    return "program threw an unrenderable value";
  }
}

function fault(error: unknown): void {
  if (settled) return;
  const message = brief(error);
  settle('{"t":"fault","message":' + quote(message.length > capacity ? slice(message, 0, capacity + 1) : message) + "}");
}

function complete(value: unknown): void {
  if (settled) return;
  if (value === undefined) settle('{"t":"done"}');
  const encoded = encode(value, capacity - spent);
  if (encoded.over || spent + byteLength(encoded.text) > capacity) settle('{"t":"done","over":true}');
  if (encoded.lossy) fail("invalid-output", "program completion must be lossless JSON");
  settle('{"t":"done"' + member("value", encoded) + "}");
}

// ── compiling ─────────────────────────────────────────────────────────────────

const OPENING = "async function program() {\n";
const CLOSING = "\n}";
const POSITION = /file:\/\/\/stripTypeScriptTypes\.ts:(\d+):(\d+)/g;
const GUTTER = /^(\d+) \|/gm;

/** Say what is wrong with a program that cannot be stripped, with the program's own line numbers. */
function syntaxMessage(error: unknown, source: string): string {
  let message = brief(error);
  if (indexOf(message, "[InvalidSyntax]") === 0) {
    // The stripper does not say where; the transformer does. It runs nothing, either.
    message = "the program has syntax that type stripping does not know";
    try {
      stripTypeScriptTypes(source, { mode: "transform" });
    } catch (detail) {
      message = replace(brief(detail), "SyntaxError: ", "");
    }
  }
  message = replace(message, POSITION, (_: string, line: string, column: string) => `program.ts:${+line - 1}:${column}`);
  message = replace(message, GUTTER, (_: string, line: string) => `${+line - 1} |`);
  return "SyntaxError: " + message;
}

/** Erase the types of a program, seen as the body of an async function. Throws on anything else. */
function strip(program: string): string {
  const source = OPENING + program + CLOSING;
  let stripped: string;
  try {
    stripped = stripTypeScriptTypes(source, { mode: "strip" });
  } catch (error) {
    throw syntaxMessage(error, source);
  }
  if (!startsWith(stripped, OPENING) || !endsWith(stripped, CLOSING)) throw "SyntaxError: the program is not a function body";
  return slice(stripped, OPENING.length, stripped.length - CLOSING.length);
}

/**
 * Make a function of a program. Compiled by `node:vm` without a loader, neither it nor anything it
 * evaluates later can import: there is no callback to ask.
 */
function compile(body: string, names: string[]): AnyFunction {
  // The body alone must parse: a program that closes the wrapper's brace early stops here.
  new AsyncFunction(...names, '"use strict";\n' + body);
  const wrapper = '"use strict"; return async function (' + names.join(", ") + ") {\n" + body + "\n};";
  return vm.compileFunction(wrapper, [], { filename: "program.ts", lineOffset: -1 })();
}

// ── the run ───────────────────────────────────────────────────────────────────

interface Start {
  program: string;
  bindings: { global: string; functions: string[]; error: ErrorSpec | null }[];
  capacity: number;
  frameLimit: number;
  windowCalls: number;
  windowBytes: number;
}

function compileOrFail(program: string, names: string[]): AnyFunction {
  try {
    return compile(strip(program), names);
  } catch (error) {
    fail("exception", error instanceof SyntaxErrorClass ? "SyntaxError: " + error.message : brief(error));
  }
}

function start(line: string): void {
  const request: Start = parse(line);
  ({ capacity, frameLimit, windowCalls, windowBytes } = request);
  const shim = makeConsole();
  const names: string[] = [];
  const values: unknown[] = [];
  for (const binding of request.bindings) {
    const rejection = binding.error === null ? null : makeErrorClass(binding.error);
    const namespace = create(null);
    for (const name of binding.functions) {
      defineProperty(namespace, name, { value: makeFunction(binding.global, name, rejection), enumerable: true });
    }
    names.push(binding.global);
    values.push(namespace);
    if (binding.error !== null) {
      names.push(binding.error.name);
      values.push(rejection);
    }
  }
  names.push("console");
  values.push(shim);
  const program = compileOrFail(request.program, names);
  sealGlobals();
  const hidden = { enumerable: false, writable: true, configurable: true };
  defineProperty(globalThis, "console", { value: shim, ...hidden });
  defineProperty(globalThis, "process", { value: makeProcess(), ...hidden });
  promiseThen(apply(program, undefined, values), complete, (error: unknown) => settled || fail("exception", describe(error)));
}

// Registered before any listener of the program's, so these run first.
addEventListener("unhandledrejection", (event) => {
  preventDefault(event);
  fault(event.reason);
});
addEventListener("error", (event) => {
  preventDefault(event);
  fault(event.error);
});
addEventListener("beforeunload", () => {
  if (!settled) settle('{"t":"idle"}');
});

/** Run everything once that the first program would otherwise wait for. */
function warm(): void {
  const body = strip("const x: number = await f({ a: [1, 'b'] }); return x;");
  compile(body, ["f"]);
  capacity = 1000;
  render([{ a: [1] }]);
  encode({ a: [1, "b", null, 1e21], c: { d: true } }, 1000);
  makeFunction("f", "f", makeErrorClass({ name: "E", member: "m" }));
  decodeBytes(encodeText(""), { stream: true });
  capacity = 0;
}

async function main(): Promise<void> {
  const lines: string[] = [];
  const read = async () => {
    while (lines.length === 0) {
      const count = await readInput(chunk);
      if (count === null) exit(0);
      takeLines(count!, (line) => lines.push(line));
    }
    return lines.shift()!;
  };
  nonce = parse(await read()).nonce;
  warm();
  post('{"t":"ready"}');
  start(await read());
}

main();
