// A worker thread in Node asks its parent to say back what it says. Prints microseconds for each round trip.

import { Worker, isMainThread, parentPort } from "node:worker_threads";

const [CHUNKS, SIZE] = [60, 50];

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url));
  worker.on("message", (message) => {
    if (message.us !== undefined) console.log(message.us);
    else worker.postMessage({ id: message.id, value: message.args.x });
  });
} else {
  let answered;
  parentPort.on("message", () => answered());
  const ask = (message) =>
    new Promise((resolve) => {
      answered = resolve;
      parentPort.postMessage(message);
    });
  let best = Infinity;
  for (let chunk = 0; chunk < CHUNKS; chunk++) {
    const start = performance.now();
    for (let id = 0; id < SIZE; id++) await ask({ id, name: "echo", args: { x: id } });
    best = Math.min(best, ((performance.now() - start) * 1000) / SIZE);
  }
  parentPort.postMessage({ us: best });
  parentPort.close();
}
