// What makes a program repeatable: clock, chance and timers come from the host, and each of its answers is a step.
//
// Ordinary programs use nothing of this. All that a program could change is captured before it starts, as in the
// worker. What nobody can order, because other threads or the garbage collector decide, is taken away.

import {
  apply, bare, bound, BytesClass, bytesBuffer, bytesLength, bytesOffset, construct, define, defineProperty,
  deleteProperty, floor, freeze, getOwnPropertyDescriptor, indexOf, mapDelete, mapGet, mapSet, methods, ownKeys, PromiseClass,
  promiseThen, slice, toNumber, uncurry,
} from "./captured.ts";

/** What the worker does for a repeatable program. */
interface Worker {
  /** Number a request; the host takes growing numbers only. */
  number(): number;
  /** Write a frame. */
  post(frame: string): void;
  /** Block until the host has written something, and feed its lines, of which there may be none yet. */
  read(take: (line: string) => void): void;
  /** Take a reply; false where nobody waits for it. */
  settle(line: string): boolean;
  /** Whether anything can wake the program. */
  waiting(): boolean;
  /** See to the next step, if anything can. */
  listen(): void;
  /** Do what comes after each step. */
  stepped(): void;
  /** End the run because a callback has thrown. */
  fault(error: unknown): void;
}

/** How many timers may run at once; each costs the host memory. */
const MOST_TIMERS = 10_000;
const LONGEST_TIMER = 2 ** 31 - 1;
/** What the clock counts: 0.01 ms, one for each reading. Whole numbers, so that nothing is lost in adding. */
const TICKS = 100;

// ── steps ─────────────────────────────────────────────────────────────────────
/** A queue in the order of arrival; an array's methods are the program's to change. */
function makeQueue() {
  let [head, tail]: any[] = [null, null];
  return bare({
    first: () => head,
    push(entry: any) {
      bare(entry).next = null;
      tail = head === null ? (head = entry) : (tail.next = entry);
    },
    shift() {
      const entry = head;
      head = entry.next;
      return entry;
    },
  });
}

/** Give the program one answer at a time: a reply, or the end of work that this process does for it. */
function makeSteps(worker: Worker) {
  const [lines, works] = [makeQueue(), makeQueue()];
  const take = (text: string) => lines.push({ text });
  const endWork = () => {
    const { settle, value } = works.shift();
    settle(value);
    worker.stepped();
  };
  const step = () => {
    // What the step before this one has cleared is not waited for.
    if (!worker.waiting()) return worker.stepped();
    // Work ends when it likes, but the program hears of it before any later reply, in the order of its beginning.
    if (works.first() !== null) return void promiseThen(works.first().done, endWork);
    if (lines.first() === null) worker.read(take);
    while (lines.first() !== null && !worker.settle(lines.shift().text)) { /* a timer that was cleared meanwhile */ }
    worker.stepped();
  };
  const defer = (work: Promise<unknown>, resolve: any, reject: any) => {
    const entry: any = bare({ settle: resolve, value: undefined, done: null, next: null });
    const note = (settle: any) => (value: unknown) => {
      entry.settle = settle;
      entry.value = value;
    };
    entry.done = promiseThen(work, note(resolve), note(reject));
    works.push(entry);
    worker.listen();
  };
  return bare({ step, defer, working: () => works.first() !== null });
}

// ── chance ────────────────────────────────────────────────────────────────────
/** Random 32-bit words: ChaCha20 under a key of 64 hexadecimal digits. */
function makeRandom(key: string): () => number {
  const [state, block] = [new Uint32Array(16), new Uint32Array(16)];
  const [constants, reverse] = [[0x61707865, 0x3320646e, 0x79622d32, 0x6b206574], new DataView(new ArrayBuffer(4))];
  for (let i = 0; i < 4; i++) state[i] = constants[i];
  for (let i = 0; i < 8; i++) {
    reverse.setUint32(0, parseInt(slice(key, 8 * i, 8 * i + 8), 16));
    state[4 + i] = reverse.getUint32(0, true);
  }
  const mix = (to: number, from: number, other: number, bits: number) => {
    block[to] += block[from];
    const word = block[other] ^ block[to];
    block[other] = (word << bits) | (word >>> (32 - bits));
  };
  const quarter = (a: number, b: number, c: number, d: number) => {
    mix(a, b, d, 16);
    mix(c, d, b, 12);
    mix(a, b, d, 8);
    mix(c, d, b, 7);
  };
  const refill = () => {
    for (let i = 0; i < 16; i++) block[i] = state[i];
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 4; i++) quarter(i, 4 + i, 8 + i, 12 + i);
      for (let i = 0; i < 4; i++) quarter(i, 4 + ((i + 1) & 3), 8 + ((i + 2) & 3), 12 + ((i + 3) & 3));
    }
    for (let i = 0; i < 16; i++) block[i] += state[i];
    if (++state[12] === 0) state[13]++;
  };
  let used = 16;
  return () => {
    if (used === 16) used = refill() ?? 0;
    return block[used++];
  };
}

function replaceChance(word: () => number, defer: any): void {
  const random = () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6)) / 2 ** 53;
  define(Math, "random", random, false);
  const fill = (bytes: Uint8Array) => {
    for (let i = 0, left = 0; i < bytesLength(bytes); i++, left >>>= 8) bytes[i] = (i & 3) === 0 ? (left = word()) : left;
    return bytes;
  };
  const fillReally = bound(crypto, "getRandomValues");
  const getRandomValues = (array: any) => {
    fillReally(array); // which says what is wrong with it
    fill(new BytesClass(bytesBuffer(array), bytesOffset(array), bytesLength(array)));
    return array;
  };
  const toHex = uncurry(Number.prototype.toString);
  const randomUUID = () => {
    const bytes = fill(new BytesClass(16));
    bytes[6] = (bytes[6] & 15) | 64;
    bytes[8] = (bytes[8] & 63) | 128;
    let text = "";
    for (let i = 0; i < 16; i++) text += (i > 3 && i < 11 && i % 2 === 0 ? "-" : "") + slice(toHex(256 + bytes[i], 16), 1);
    return text;
  };
  const subtle = makeSubtle(defer);
  define(globalThis, "crypto", freeze({ getRandomValues, randomUUID, subtle }), false);
}

/** The part of `crypto.subtle` that draws no numbers of its own: digests, and signatures with a shared key. */
function makeSubtle(defer: any): object {
  const [digest, importKey, sign, verify] = ["digest", "importKey", "sign", "verify"].map((name) => {
    const work = bound(crypto.subtle, name);
    return (...values: any[]) => new PromiseClass((resolve, reject) => defer(apply(work, undefined, values), resolve, reject));
  });
  const ExceptionClass = DOMException;
  const check = (algorithm: any) => {
    const name = typeof algorithm === "string" ? algorithm : algorithm.name;
    if (name !== "HMAC") throw new ExceptionClass("a repeatable program signs with HMAC only", "NotSupportedError");
    return name;
  };
  return freeze({
    digest,
    importKey,
    sign: async (algorithm: any, key: any, data: any) => await sign(check(algorithm), key, data),
    verify: async (algorithm: any, key: any, mark: any, data: any) => await verify(check(algorithm), key, mark, data),
  });
}

// ── the clock ─────────────────────────────────────────────────────────────────
/** A clock that stands still but for being read, so that a loop that waits for a time to come sees it come. */
function makeClock(startedAt: number) {
  let ticks = startedAt * TICKS;
  return bare({
    /** Read the clock in ticks, and move it on by one. */
    read: () => ticks++,
    /** Return the time in ticks, which moves nothing. */
    ticks: () => ticks,
    /** Show a time, unless it is an earlier one. */
    move(to: number) {
      if (to > ticks) ticks = to;
    },
  });
}

function replaceClock(read: () => number, startedAt: number): void {
  const RealDate = Date;
  const now = () => floor(read() / TICKS);
  const dateText = uncurry(RealDate.prototype.toString);
  const ProgramDate: any = function (...parts: any[]) {
    if (new.target === undefined) return dateText(new RealDate(now()));
    return construct(RealDate, parts.length === 0 ? [now()] : parts, new.target);
  };
  for (const key of ownKeys(RealDate)) defineProperty(ProgramDate, key, getOwnPropertyDescriptor(RealDate, key)!);
  define(ProgramDate, "now", () => now(), false);
  define(RealDate.prototype, "constructor", ProgramDate, false);
  define(globalThis, "Date", ProgramDate, false);

  const passed = () => (read() - startedAt * TICKS) / TICKS;
  const clock = freeze({ timeOrigin: startedAt, now: passed, toJSON: () => ({ timeOrigin: startedAt }) });
  define(globalThis, "performance", clock, false);
  const stamps = new WeakMap();
  const [stampOf, setStamp] = methods(WeakMap.prototype, "get", "set");
  defineProperty(Event.prototype, "timeStamp", {
    get() {
      // An event has one time, however often it is asked for.
      const stamp = stampOf(stamps, this) ?? passed();
      setStamp(stamps, this, stamp);
      return stamp;
    },
  });

  const format = Intl.DateTimeFormat.prototype;
  const formatOf = uncurry(getOwnPropertyDescriptor(format, "format")!.get);
  const partsOf = uncurry(format.formatToParts);
  const orNow = (date: any) => (date === undefined ? now() : date);
  defineProperty(format, "format", {
    get() {
      const write = formatOf(this);
      return (date: any) => write(orNow(date));
    },
  });
  define(format, "formatToParts", { formatToParts(date: any) { return partsOf(this, orNow(date)); } }.formatToParts, false);
  replaceTemporal(now);
}

function replaceTemporal(now: () => number): void {
  const { Instant, Now, PlainDateTime, ZonedDateTime } = (globalThis as any).Temporal;
  const fromMilliseconds = bound(Instant, "fromEpochMilliseconds");
  const [zone, toZoned] = [bound(Now, "timeZoneId"), uncurry(Instant.prototype.toZonedDateTimeISO)];
  const [toPlain] = methods(ZonedDateTime.prototype, "toPlainDateTime");
  const [toDate, toTime] = methods(PlainDateTime.prototype, "toPlainDate", "toPlainTime");
  const instant = () => fromMilliseconds(now());
  const zonedDateTimeISO = (timeZone: any = zone()) => toZoned(instant(), timeZone);
  const plainDateTimeISO = (timeZone?: any) => toPlain(zonedDateTimeISO(timeZone));
  const plainDateISO = (timeZone?: any) => toDate(plainDateTimeISO(timeZone));
  const plainTimeISO = (timeZone?: any) => toTime(plainDateTimeISO(timeZone));
  const replacements = { instant, zonedDateTimeISO, plainDateTimeISO, plainDateISO, plainTimeISO };
  for (const [name, replacement] of Object.entries(replacements)) define(Now, name, replacement, false);
}

// ── timers ────────────────────────────────────────────────────────────────────
/** Timers that the host answers; returns what takes an answer, and how many run. */
function replaceTimers(worker: Worker, clock: ReturnType<typeof makeClock>) {
  // By the number of the request and by what the program calls the timer.
  const [requests, timers] = [new Map(), new Map()];
  const [ErrorOfType, ErrorOfRange, ExceptionClass] = [TypeError, RangeError, DOMException];
  let [last, count] = [0, 0];
  const arm = (timer: any) => {
    timer.request = worker.number();
    timer.due = clock.ticks() + timer.milliseconds * TICKS;
    mapSet(requests, timer.request, timer);
    worker.post('{"t":"sleep","id":' + timer.request + ',"ms":' + timer.milliseconds + "}");
    worker.listen();
  };
  const disarm = (timer: any) => {
    mapDelete(timers, timer.name);
    count -= 1;
  };
  const begin = (action: any, milliseconds: number, again: boolean): number => {
    if (count >= MOST_TIMERS) throw new ErrorOfRange("more than " + MOST_TIMERS + " timers at once");
    count += 1;
    const timer = bare({ name: ++last, request: 0, due: 0, action, milliseconds, again });
    mapSet(timers, timer.name, timer);
    arm(timer);
    return timer.name;
  };
  const fire = (request: number, at: number | null): boolean => {
    const timer = mapGet(requests, request);
    if (timer === undefined) return false;
    if (at !== null) {
      clock.move(at * TICKS);
      // The host has not seen the clock being read; for the program no timer goes off before its time.
      clock.move(timer.due);
    }
    mapDelete(requests, request);
    if (!timer.again) disarm(timer);
    try {
      timer.action();
    } catch (error) {
      worker.fault(error);
    }
    if (timer.again && mapGet(timers, timer.name) === timer) arm(timer);
    return true;
  };
  const make = (again: boolean) => (callback: any, delay: any = 0, ...values: any[]) => {
    if (typeof callback !== "function") throw new ErrorOfType("a timer's callback must be a function");
    const milliseconds = toNumber(delay) | 0;
    return begin(() => apply(callback, globalThis, values), milliseconds > +again ? milliseconds : +again, again);
  };
  const clear = (name: any) => {
    const timer = mapGet(timers, toNumber(name));
    if (timer === undefined) return;
    disarm(timer);
    // A clearing by the timer's own callback comes after its answer.
    if (mapDelete(requests, timer.request)) worker.post('{"t":"wake","id":' + timer.request + "}");
  };
  const [abort] = methods(AbortController.prototype, "abort");
  const signalOf = uncurry(getOwnPropertyDescriptor(AbortController.prototype, "signal")!.get);
  const ControllerClass = AbortController;
  const timeout = (delay: any) => {
    const milliseconds = toNumber(delay);
    if (!(milliseconds >= 0)) throw new ErrorOfType("a time limit must be 0 or more milliseconds");
    const controller = new ControllerClass();
    const end = () => abort(controller, new ExceptionClass("Signal timed out.", "TimeoutError"));
    begin(end, milliseconds > LONGEST_TIMER ? LONGEST_TIMER : floor(milliseconds), false);
    return signalOf(controller);
  };
  const names = { setTimeout: make(false), setInterval: make(true), clearTimeout: clear, clearInterval: clear };
  for (const [name, replacement] of Object.entries(names)) define(globalThis, name, replacement, true);
  define(AbortSignal, "timeout", timeout, true);
  return bare({ fire, count: () => count });
}

// ── stacks ────────────────────────────────────────────────────────────────────
/** Leave our own frames out of stacks: where our files lie is another matter on another machine. */
function replaceStacks(): void {
  const errorText = uncurry(Error.prototype.toString);
  const frameText = (frame: any): string => apply(frame.toString, frame, []);
  // Without its scheme, a path stands in a frame either way.
  const ours = decodeURI(new URL(".", import.meta.url).pathname);
  const prepareStackTrace = (error: unknown, frames: any) => {
    let text = errorText(error);
    for (let i = 0; i < frames.length; i++) {
      const frame = frameText(frames[i]);
      if (indexOf(frame, ours) < 0) text += "\n    at " + frame;
    }
    return text;
  };
  define(Error, "prepareStackTrace", prepareStackTrace, false);
}

// ── the whole ─────────────────────────────────────────────────────────────────
/** What drives a repeatable program. */
export interface Repeatable {
  /** Do one step; blocks until there is something to do. */
  step(): void;
  /** Take a timer's answer; false where it runs no more. */
  fire(request: number, at: number | null): boolean;
  /** Let the clock show a time, unless it is an earlier one; null is none. */
  moveClock(at: number | null): void;
  /** Whether anything but a reply to a call can wake the program. */
  waiting(): boolean;
}

/** Replace what is not repeatable; to be called just before the program starts. */
export function makeRepeatable(worker: Worker, key: string, startedAt: number): Repeatable {
  const clock = makeClock(startedAt);
  const moveClock = (at: number | null) => {
    if (at !== null) clock.move(at * TICKS);
  };
  const { step, defer, working } = makeSteps(worker);
  const { fire, count } = replaceTimers(worker, clock);
  replaceClock(clock.read, startedAt);
  replaceChance(makeRandom(key), defer);
  replaceStacks();
  // Garbage is collected when the engine likes, and other threads end when they like.
  for (const name of ["WeakRef", "FinalizationRegistry"]) deleteProperty(globalThis, name);
  deleteProperty(Atomics, "waitAsync");
  return bare({ step, fire, moveClock, waiting: () => count() > 0 || working() });
}
