// The page: comes in, listens to the stream, and shows what the address asks for.
import { RequestError, Stream, enter, server } from "./api.js";
import { ApprovalsPage } from "./approvals.js";
import { count, h, plain, remember, remembered, toast } from "./dom.js";
import { SessionPage } from "./session.js";
import { SessionsPage } from "./sessions.js";
import { ToolsPage } from "./tools.js";

const main = document.getElementById("main");
const status = document.getElementById("status");

/** What all pages share. */
const app = { approvals: [], sessions: [], page: null, watched: null, stream: null };

const PAGES = { sessions: SessionsPage, session: SessionPage, approvals: ApprovalsPage, tools: ToolsPage };
const LINKS = [["sessions", "Sessions"], ["session", "Session"], ["approvals", "Approvals"], ["tools", "Tools"]];

/** What came of a turn that went on here with an answer; anything else is a sentence already. */
const ENDS = {
  completed: "the turn went on and is completed", waiting: "the turn went on, and waits for another answer",
  aborted: "the turn went on and was cancelled", error: "the turn went on and failed",
  blocked: "the turn went on until a policy blocked it", "max-tokens": "the turn went on; the model's answer was cut off",
};

function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: PAGES[name] ? name : "", rest, query: new URLSearchParams(query) };
}

function show() {
  const where = route();
  if (!where.name) {
    const first = app.sessions.find((session) => session.live) ?? app.sessions[0];
    location.replace(server.about.live && first ? `#/session/${encodeURIComponent(first.id)}` : "#/sessions");
    return;
  }
  if (where.name === "session" && !where.rest[0]) {
    const first = app.watched ?? app.sessions[0]?.id;
    location.replace(first ? `#/session/${encodeURIComponent(first)}` : "#/sessions");
    return;
  }
  if (app.page?.accepts?.(where)) {
    drawNav();
    return;
  }
  app.page?.leave?.();
  main.replaceChildren();
  main.className = `page-${where.name}`;
  const session = where.name === "session" ? where.rest[0] : null;
  if (session !== null) app.watched = session;
  app.page = new PAGES[where.name](app, main, where);
  if (!app.stream.source || app.stream.session !== session || session !== null) app.stream.open(session);
  drawNav();
  document.title = `${app.page.title} · dsh-tools inspector`;
  window.scrollTo(0, 0);
}

function drawNav() {
  const { name } = route();
  document.getElementById("nav").replaceChildren(...LINKS.map(([key, label]) => {
    const pending = key === "approvals" ? app.approvals.length : 0;
    return h("a", { href: `#/${key}`, "aria-current": key === name ? "page" : null }, label,
      pending ? h("span", { class: "badge", "aria-label": `${pending} pending` }, String(pending)) : null);
  }));
  const banner = document.getElementById("banner");
  banner.hidden = !app.approvals.length || name === "approvals";
  banner.replaceChildren(
    h("p", {}, `${count(app.approvals.length, "call waits", "calls wait")} for approval: `,
      h("strong", {}, app.approvals.map((question) => plain(question.toolName)).slice(0, 3).join(", "))),
    h("a", { class: "button", href: "#/approvals" }, "Review"));
}

function onMessage(kind, payload) {
  if (kind === "hello") server.about = payload;
  else if (kind === "approvals") {
    app.approvals = payload;
    drawNav();
  } else if (kind === "decided") {
    toast(`${plain(payload.toolName)}: ${payload.outcome}`, payload.outcome === "allowed-once" ? "ok" : "warn");
  } else if (kind === "went-on") {
    toast(`${plain(payload.session)}: ${ENDS[payload.ended] ?? plain(payload.ended)}`, payload.ended === "completed" ? "ok" : "warn");
  } else if (kind === "sessions") {
    app.sessions = payload;
    if (!route().name) show();
  } else if (kind === "start-over") {
    app.page?.startOver?.();
    app.stream.open(app.stream.session);
  }
  app.page?.onMessage?.(kind, payload);
}

function onState(state) {
  const texts = {
    connected: server.about.live ? "Live" : "Watching the file", reconnecting: "Reconnecting…", locked: "Locked out",
  };
  status.textContent = texts[state];
  status.className = `status ${state}`;
  if (state === "locked") locked("The server was started again, so this page's key no longer fits.");
}

function locked(text) {
  app.page?.leave?.();
  app.page = null;
  main.replaceChildren(h("div", { class: "empty" }, h("h1", {}, "This page is locked"), h("p", {}, text),
    h("p", {}, "Open the address that was printed when the inspector started; it ends in ", h("code", {}, "#token=…"), ".")));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[theme];
}

async function start() {
  setTheme(remembered("theme", "auto"));
  document.getElementById("theme").addEventListener("click", () => {
    const following = { auto: "light", light: "dark", dark: "auto" }[document.documentElement.dataset.theme];
    remember("theme", following);
    setTheme(following);
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  try {
    await enter();
  } catch (error) {
    locked(error instanceof RequestError && error.status !== 401 ? error.message : "It has no key, or its key no longer fits.");
    return;
  }
  app.stream = new Stream(onMessage, onState);
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) location.reload();
    else show();
  });
  if (!route().name) {
    app.stream.open(null); // the list of sessions says where to go
    setTimeout(() => { if (!route().name && !app.sessions.length) show(); }, 800);
    main.replaceChildren(h("p", { class: "empty" }, "Loading…"));
    drawNav();
  } else show();
}

start();
