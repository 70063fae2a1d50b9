// Asks the host to say back what it says, one line of JSON at a time, and prints how long that took.
// This is as little as a Deno process can do to reach its parent: the limit of any design on pipes.

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const chunk = new Uint8Array(65536);
let held = "";

async function ask(message: unknown): Promise<any> {
  Deno.stdout.writeSync(encoder.encode(JSON.stringify(message) + "\n"));
  for (;;) {
    const end = held.indexOf("\n");
    if (end >= 0) {
      const line = held.slice(0, end);
      held = held.slice(end + 1);
      return JSON.parse(line);
    }
    const count = await Deno.stdin.read(chunk);
    if (count === null) Deno.exit(0);
    held += decoder.decode(chunk.subarray(0, count), { stream: true });
  }
}

for (;;) {
  const { chunks, size } = await ask({ ready: true });
  let best = Infinity;
  for (let chunk = 0; chunk < chunks; chunk++) {
    const start = performance.now();
    for (let id = 0; id < size; id++) await ask({ id, name: "echo", args: { x: id } });
    best = Math.min(best, ((performance.now() - start) * 1000) / size);
  }
  await ask({ us: best });
}
