// The list of sessions, with a filter and a search over everything that was called and answered.
import { address, get } from "./api.js";
import { count, freshId, h, moment, plain, textNodes } from "./dom.js";

const SHOWN = 200;

export class SessionsPage {
  constructor(app, main, where) {
    this.app = app;
    this.title = "Sessions";
    this.wanted = "";
    this.limit = SHOWN;
    const filterId = freshId();
    const searchId = freshId();
    this.field = h("input", { id: searchId, type: "search", value: where.query.get("q") ?? "", autocomplete: "off" });
    this.body = h("tbody", {});
    this.foot = h("p", { class: "more" });
    this.hits = h("div", { class: "hits", "aria-live": "polite" });
    main.append(
      h("h1", {}, "Sessions"),
      h("div", { class: "filters" },
        h("div", { class: "field" }, h("label", { for: filterId }, "Filter by title, id, folder"),
          h("input", { id: filterId, type: "search", autocomplete: "off", oninput: (event) => { this.wanted = event.target.value.toLowerCase(); this.draw(); } })),
        h("form", { class: "field", role: "search", onsubmit: (event) => { event.preventDefault(); this.search(); } },
          h("label", { for: searchId }, "Search in calls, results and messages"),
          h("span", { class: "row" }, this.field, h("button", { type: "submit" }, "Search")))),
      this.hits,
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "List of sessions" },
        h("table", { class: "list" },
          h("thead", {}, h("tr", {}, ["About", "Started", "Last event", "Events", "Export"].map((text) => h("th", { scope: "col" }, text)))),
          this.body)),
      this.foot);
    this.draw();
    if (this.field.value) this.search();
  }

  onMessage(kind) {
    if (kind === "sessions") this.draw();
  }

  draw() {
    const found = this.app.sessions.filter((session) =>
      `${session.title} ${session.id} ${session.cwd ?? ""} ${session.origin ?? ""}`.toLowerCase().includes(this.wanted));
    this.body.replaceChildren(...found.slice(0, this.limit).map((session) => h("tr", {},
      h("th", { scope: "row" },
        h("a", { href: `#/session/${encodeURIComponent(session.id)}` }, h("bdi", {}, plain(session.title || session.id))),
        session.live ? h("span", { class: "pill" }, "live") : null,
        session.waiting ? h("span", { class: "pill" }, "waits for a person") : null,
        h("span", { class: "dim under" }, [session.id, session.cwd, session.parent ? `from ${session.parent}` : null].filter(Boolean).map(plain).join(" · "))),
      h("td", {}, moment(session.createdAt)), h("td", {}, moment(session.updatedAt)),
      h("td", { class: "right" }, session.length.toLocaleString("en")),
      h("td", {}, h("a", { href: address("/api/export", { session: session.id }), download: "" }, "JSON lines", h("span", { class: "sr" }, ` of ${plain(session.id)}`))))));
    if (!found.length) {
      this.body.append(h("tr", {}, h("td", { colspan: 5, class: "none" }, this.app.sessions.length ? "No session fits the filter." : "No sessions are kept here yet.")));
    }
    this.foot.replaceChildren(...(found.length > this.limit
      ? [h("button", { type: "button", class: "quiet", onclick: () => { this.limit += SHOWN; this.draw(); } }, `Show more of ${count(found.length, "session")}`)] : []));
  }

  async search() {
    const text = this.field.value.trim();
    if (!text) {
      this.hits.replaceChildren();
      return;
    }
    this.hits.replaceChildren(h("p", { class: "dim" }, "Searching…"));
    let found;
    try {
      found = await get("/api/search", { q: text });
    } catch (error) {
      this.hits.replaceChildren(h("p", { class: "problem" }, plain(error.message)));
      return;
    }
    const kinds = { "tool/call": "call", "tool/result": "result", "tool/code-dispatch-start": "call of a program", "tool/code-dispatch": "result in a program", "user/message": "message", "assistant/message": "answer" };
    this.hits.replaceChildren(
      h("h2", {}, `${count(found.hits.length, "hit")}${found.complete ? "" : ", and there may be more"}`),
      h("ol", { class: "hit-list" }, found.hits.map((hit) => h("li", {},
        h("a", { href: `#/session/${encodeURIComponent(hit.session)}?at=${hit.seq}` }, h("bdi", {}, plain(hit.title || hit.session)), ` · ${hit.name ? `${plain(hit.name)}, ` : ""}${kinds[hit.type] ?? hit.type}`),
        h("p", { class: "snippet" }, ...textNodes(hit.before), h("mark", {}, ...textNodes(hit.match)), ...textNodes(hit.after))))));
  }
}
