// Talking to the server: requests with the second secret, and the stream that comes back after a break.

let csrf = "";
export const server = { about: { label: "", live: false, answers: false, calls: false } };

export class RequestError extends Error {
  constructor(status, text) {
    super(text || `the server answered with status ${status}`);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  const isJson = (answer.headers.get("content-type") || "").includes("json");
  const body = isJson ? await answer.json() : await answer.text();
  if (answer.ok || (isJson && answer.status === 409)) return body;
  throw new RequestError(answer.status, typeof body === "string" ? body : "");
}

export function get(path, parameters = {}) {
  return request(address(path, parameters));
}

export function post(path, body) {
  const headers = { "content-type": "application/json", "x-csrf-token": csrf };
  return request(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export function address(path, parameters) {
  const query = new URLSearchParams(parameters).toString();
  return query ? `${path}?${query}` : path;
}

/** Come in: by the token in the address, which is dropped from it, or by the cookie from before. */
export async function enter() {
  const match = /^#token=([\w-]+)/.exec(location.hash);
  let answer;
  if (match) {
    history.replaceState(null, "", `${location.pathname}#/`);
    answer = await post("/api/login", { token: match[1] });
  } else {
    answer = await get("/api/me");
  }
  csrf = answer.csrf;
  server.about = answer.about;
}

const KINDS = [
  "hello", "approvals", "decided", "sessions", "rows", "caught-up", "delta", "answer-end", "progress", "state",
  "tools", "went-on", "start-over", "goodbye",
];

/** The one stream of this page. The browser reconnects after breaks; this does where it gives up. */
export class Stream {
  constructor(onMessage, onState) {
    this.onMessage = onMessage;
    this.onState = onState;
    this.session = null;
    this.source = null;
    this.next = 0;
    this.timer = 0;
  }

  open(session, start = 0) {
    this.close();
    this.session = session;
    this.next = start;
    const source = new EventSource(address("/api/stream", session === null ? {} : { session, start }));
    this.source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (this.source !== source) return;
        const payload = JSON.parse(event.data);
        if (kind === "rows") this.next = payload.next;
        this.onMessage(kind, payload);
      });
    }
    source.onopen = () => this.onState("connected");
    source.onerror = () => {
      if (this.source !== source) return;
      this.onState("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.timer = setTimeout(() => this.retry(), 1500);
    };
  }

  async retry() {
    try {
      await get("/api/me");
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) {
        this.onState("locked");
        return;
      }
    }
    this.open(this.session, this.next);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
