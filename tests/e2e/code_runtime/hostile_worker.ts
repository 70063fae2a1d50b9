// A worker that knows the nonce and means no good. The program it is given says what it does.

const encoder = new TextEncoder();
const raw = (text: string | Uint8Array) => {
  let bytes = typeof text === "string" ? encoder.encode(text) : text;
  while (bytes.length > 0) bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
};

let held = "";
const chunk = new Uint8Array(65536);
const decoder = new TextDecoder();
async function line(): Promise<any> {
  while (!held.includes("\n")) {
    const count = await Deno.stdin.read(chunk);
    if (count === null) Deno.exit(0);
    held += decoder.decode(chunk.subarray(0, count), { stream: true });
  }
  const end = held.indexOf("\n");
  const text = held.slice(0, end);
  held = held.slice(end + 1);
  return JSON.parse(text);
}

const { nonce } = await line();
const frame = (value: unknown) => raw(nonce + JSON.stringify(value) + "\n");
const call = (id: unknown, args: unknown = {}, name: unknown = "echo", ns: unknown = "tools") =>
  frame({ t: "call", id, ns, name, args });
const done = (value?: unknown) => frame({ t: "done", value });

const acts: Record<string, () => unknown> = {
  async gigabyte() {
    const noise = new Uint8Array(1 << 20).fill(120);
    for (let i = 0; i < 1024; i++) raw(noise);
    raw("\n");
    done("survived");
  },
  async gigabyteOfLines() {
    const noise = encoder.encode("x".repeat(4095) + "\n");
    const block = new Uint8Array(1 << 20);
    for (let at = 0; at < block.length; at += noise.length) block.set(noise, at);
    for (let i = 0; i < 1024; i++) raw(block);
    done("survived");
  },
  async gigabyteInFrame() {
    raw(nonce + '{"t":"log","text":"');
    const noise = new Uint8Array(1 << 20).fill(120);
    for (let i = 0; i < 1024; i++) raw(noise);
    raw('"}\n');
    done("survived");
  },
  junk() {
    raw("\n\n\x00\xff\n{}\n" + nonce + "\n" + nonce + "{\n" + nonce + "[]\n" + nonce + "null\n" + nonce + '{"t":"nope"}\n');
    raw('{"t":"done","value":"forged without the nonce"}\n');
    raw("x" + nonce + '{"t":"done","value":"not at the start"}\n');
    raw(nonce.toUpperCase() + '{"t":"done","value":"another nonce"}\n');
    frame({ t: "done", error: { kind: "timeout", message: "mine" } });
    frame({ t: "done", error: { kind: "exception" } });
    frame({ t: "log", text: 5 });
    frame({ t: "log" });
    frame({ t: "call", id: "1", ns: "tools", name: "echo", args: {} });
    frame({ t: "call", id: 1.5, ns: "tools", name: "echo", args: {} });
    frame({ t: "call", id: 1, ns: "tools", name: "echo" });
    frame({ t: "fault" });
    frame({ t: "ready" });
    raw(nonce + '{"t":"log","text":"' + "\\ud800".repeat(2) + '"}\n');
    done("last");
  },
  async timers() {
    for (let id = 1; id < 4; id++) frame({ t: "sleep", id, ms: 0 });
    frame({ t: "wake", id: 1 });
    frame({ t: "wake", id: 99 });
    frame({ t: "wake", id: 1 });
    call(2, "late");
    call(4);
    done([(await line()).id]);
  },
  async floodOfTimers() {
    for (let id = 1; ; id++) frame({ t: "sleep", id, ms: 2147483647 });
  },
  async truncated() {
    raw(nonce + '{"t":"done","val');
    await new Promise((r) => setTimeout(r, 50));
    Deno.exit(3);
  },
  async interleaved() {
    const text = nonce + '{"t":"log","text":"in pieces"}\n' + nonce + '{"t":"done","value":"whole"}\n';
    for (const char of text) {
      raw(char);
      await new Promise((r) => setTimeout(r, 1));
    }
  },
  async duplicates() {
    call(1, { n: 1 });
    call(1, { n: 2 });
    call(1, { n: 3 });
    const first = await line();
    call(1, { n: 4 });
    call(0, { n: 5 });
    call(-7, { n: 6 });
    call(2, { n: 7 });
    const second = await line();
    done([first, second]);
  },
  async names() {
    const replies = [];
    const names = [["missing", "tools"], ["__class__", "tools"], ["echo", "nowhere"], ["echo", "__proto__"], ["get", "tools"]];
    for (let i = 0; i < names.length; i++) {
      call(i + 1, {}, names[i][0], names[i][1]);
      replies.push(await line());
    }
    done(replies.map((reply) => [reply.ok, reply.message]));
  },
  async forgedArguments() {
    const replies = [];
    let id = 0;
    for (const text of ["-0.0", "1e400", "9007199254740993", '{"a":[-9007199254740993]}', '{"a":-0.0}']) {
      raw(`${nonce}{"t":"call","id":${++id},"ns":"tools","name":"echo","args":${text}}\n`);
      replies.push(await line());
    }
    for (const text of ["[", "[1 ]", '{"a":-0.0}', "9007199254740993"]) {
      frame({ t: "call", id: ++id, ns: "tools", name: "echo", deep: text });
      replies.push(await line());
    }
    done(replies.map((reply) => reply.ok ? "accepted" : reply.message));
  },
  forgedValue: () => raw(nonce + '{"t":"done","value":{"a":-0.0}}\n'),
  forgedDeepValue: () => frame({ t: "done", deep: "[[1}" }),
  largeValue: () => done("x".repeat(100_000)),
  largeError: () => frame({ t: "done", error: { kind: "exception", message: "x".repeat(100_000) } }),
  ownLimit: () => frame({ t: "done", error: { kind: "output-limit", message: "in my own words" } }),
  both: () => frame({ t: "done", value: 1, error: { kind: "exception", message: "both" } }),
  twice() {
    done("first");
    done("second");
    frame({ t: "log", text: "after the end" });
    frame({ t: "fault", message: "after the end" });
    call(1);
  },
  async spam() {
    for (let i = 0;; i++) frame({ t: "log", text: `spam line ${i}` });
  },
  async callsWithoutEnd() {
    for (let id = 1;; id++) call(id, { seconds: 60 }, "slow");
  },
  async largeCallsWithoutEnd() {
    for (let id = 1;; id++) call(id, { seconds: 60, pad: "x".repeat(1 << 20) }, "slow");
  },
  async deepFrame() {
    raw(nonce + '{"t":"done","value":' + "[".repeat(200_000) + "]".repeat(200_000) + "}\n");
    raw(nonce + '{"t":"call","id":1,"ns":"tools","name":"echo","args":' + '{"a":'.repeat(50_000) + "1" + "}".repeat(50_000) + "}\n");
    done("bounded");
  },
  async closesItsOutput() {
    Deno.stdout.close();
    await new Promise((r) => setTimeout(r, 60_000));
  },
  ignoresItsInput: () => new Promise(() => setInterval(() => {}, 1000)),
  async refusesToRead() {
    for (let id = 1; id <= 400; id++) call(id, { pad: "x".repeat(50_000) });
    for (;;);
  },
};

raw(nonce + '{"t":"ready"}\n');
const request = await line();
await acts[request.program]();
await new Promise((r) => setTimeout(r, 60_000));
