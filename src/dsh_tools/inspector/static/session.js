// One session: its messages and calls as they come, or as they came; its timeline; replay and export.
import { address } from "./api.js";
import { callCard, contentParts } from "./cards.js";
import { count, freshId, h, moment, plain, textNodes, toast } from "./dom.js";
import { SessionModel } from "./model.js";
import { TimelineView } from "./timeline.js";
import { VirtualList } from "./virtual.js";

const GUESSES = { turn: 44, user: 70, assistant: 80, partial: 80, note: 44 };
const FILTERS = {
  all: () => true,
  calls: (item) => item.kind === "call",
  trouble: (item) => item.kind === "call" && !["ok", "queued", "running", "stopping", "asking"].includes(item.state),
};

export class SessionPage {
  constructor(app, main, where) {
    this.app = app;
    this.id = where.rest[0];
    this.title = `Session ${plain(this.id)}`;
    this.model = new SessionModel();
    this.filter = "all";
    this.caughtUp = false;
    this.wanted = where.query.get("at");
    this.context = { session: this.id, onResize: () => this.list.schedule(), redraw: (item) => this.list.redraw(item) };
    this.playing = 0;
    this.build(main);
    this.showTab(where.rest[1] === "timeline" ? "timeline" : "conversation");
  }

  /** Changes of the address within this session need no new page. */
  accepts(where) {
    if (where.name !== "session" || where.rest[0] !== this.id) return false;
    this.showTab(where.rest[1] === "timeline" ? "timeline" : "conversation");
    this.wanted = where.query.get("at");
    if (this.wanted !== null) this.reveal();
    return true;
  }

  leave() {
    clearInterval(this.playing);
    this.list.destroy();
    this.timeline.leave();
  }

  build(main) {
    const here = `#/session/${encodeURIComponent(this.id)}`;
    this.heading = h("h1", { class: "session-title" }, plain(this.id));
    this.meta = h("p", { class: "dim session-meta" });
    this.tabs = {
      conversation: h("a", { href: here }, "Conversation"),
      timeline: h("a", { href: `${here}/timeline` }, "Timeline"),
    };
    const filterId = freshId();
    this.scroller = h("div", { class: "scroller", id: "scroller" });
    this.conversation = h("div", { class: "conversation" }, this.scroller, this.buildReplay());
    this.timelineBox = h("div", { class: "timeline-box" });
    main.append(
      h("div", { class: "session-head" },
        h("div", { class: "session-name" }, this.heading, this.meta),
        h("nav", { class: "tabs", "aria-label": "Views of this session" }, this.tabs.conversation, this.tabs.timeline),
        h("div", { class: "tools-row" },
          h("label", { for: filterId, class: "sr" }, "Show"),
          h("select", { id: filterId, onchange: (event) => this.setFilter(event.target.value) },
            h("option", { value: "all" }, "Everything"), h("option", { value: "calls" }, "Calls only"),
            h("option", { value: "trouble" }, "What went wrong")),
          h("a", { class: "button quiet", href: address("/api/export", { session: this.id }), download: "" }, "Export"),
          h("a", { class: "button quiet", href: address("/api/timeline.svg", { session: this.id }), download: "" }, "Timeline SVG"))),
      this.conversation, this.timelineBox);
    this.list = new VirtualList(this.scroller, (item) => this.draw(item), (item) => GUESSES[item.kind] ?? 150 + 90 * (item.subs?.length ?? 0));
    this.list.follow = this.wanted === null;
    this.timeline = new TimelineView(this.timelineBox, this.id);
    this.drawMeta();
  }

  buildReplay() {
    const id = freshId();
    this.range = h("input", {
      type: "range", id, min: "0", max: "0", value: "0", step: "1",
      oninput: (event) => this.scrub(Number(event.target.value)),
    });
    this.playButton = h("button", { type: "button", class: "quiet", onclick: () => this.play() }, "Replay");
    this.liveButton = h("button", { type: "button", class: "quiet", onclick: () => this.goLive() }, "Latest");
    this.position = h("output", { for: id, class: "dim position" });
    return h("div", { class: "replay", role: "group", "aria-label": "Replay" },
      this.playButton, h("label", { for: id, class: "sr" }, "Moment of the session"), this.range, this.position, this.liveButton);
  }

  showTab(tab) {
    this.tab = tab;
    for (const [name, link] of Object.entries(this.tabs)) {
      if (name === tab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.conversation.hidden = tab !== "conversation";
    this.timelineBox.hidden = tab !== "timeline";
    if (tab === "timeline") this.timeline.refresh();
    else this.list.schedule();
  }

  // ── what comes in ────────────────────────────────────────────────────────

  onMessage(kind, payload) {
    if (kind === "rows" && payload.session === this.id) {
      this.model.add(payload.rows);
      if (this.tab === "timeline") this.timeline.refreshSoon();
      this.changed();
    } else if (kind === "caught-up") {
      this.caughtUp = true;
      if (!this.model.rows.length) this.scroller.prepend(h("p", { class: "empty waiting" }, "Nothing has happened in this session yet."));
      if (this.wanted !== null) this.reveal();
    } else if (kind === "delta") {
      this.model.delta(payload.kind, payload.text);
      this.changed();
    } else if (kind === "answer-end") {
      this.model.dropPartial();
      this.changed();
    } else if (kind === "progress") {
      this.model.progress(payload.callId, payload.text);
      this.changed();
    } else if (kind === "state") {
      this.model.state(payload.callId, payload.state);
      this.changed();
    } else if (kind === "sessions") this.drawMeta();
  }

  startOver() {
    this.model = new SessionModel();
    this.changed();
  }

  changed() {
    this.scroller.querySelector(".waiting")?.remove();
    const keep = FILTERS[this.filter];
    this.list.set(this.filter === "all" ? this.model.items : this.model.items.filter(keep));
    const { rows, shown } = this.model;
    this.range.max = String(rows.length);
    this.range.value = String(shown);
    this.position.textContent = rows.length ? `${shown} of ${count(rows.length, "event")}` : "no events";
    if (rows.length) this.range.setAttribute("aria-valuetext", `event ${shown} of ${rows.length}${shown ? `, ${moment(rows[shown - 1].time)}` : ""}`);
    this.liveButton.disabled = this.model.live && this.list.follow;
  }

  drawMeta() {
    const found = this.app.sessions.find((session) => session.id === this.id);
    if (!found) return;
    this.heading.replaceChildren(h("bdi", {}, plain(found.title || found.id)));
    const parts = [found.id, moment(found.createdAt), found.cwd, found.live ? "live" : null].filter(Boolean);
    this.meta.textContent = parts.map(plain).join(" · ");
  }

  // ── replay ───────────────────────────────────────────────────────────────

  scrub(length) {
    this.model.live = false;
    this.model.showUpTo(length);
    this.list.follow = true;
    this.changed();
    this.list.toEnd();
  }

  play() {
    if (this.playing) {
      this.stop();
      return;
    }
    if (this.model.shown >= this.model.rows.length) this.scrub(0);
    this.playButton.textContent = "Pause";
    this.playing = setInterval(() => {
      if (this.model.shown >= this.model.rows.length) this.stop();
      else this.scrub(this.model.shown + 1);
    }, 180);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    this.playButton.textContent = "Replay";
  }

  goLive() {
    this.stop();
    this.model.live = true;
    this.model.showUpTo(this.model.rows.length);
    this.changed();
    this.list.toEnd();
  }

  setFilter(filter) {
    this.filter = filter;
    this.changed();
  }

  /** Go to the event that the address names, such as a hit of a search. */
  reveal() {
    const seq = Number(this.wanted);
    if (!this.caughtUp || Number.isNaN(seq)) return;
    this.wanted = null;
    const call = this.model.items.find((item) => item.seq === seq || item.resultSeq === seq || item.subs?.some((sub) => sub.seq === seq || sub.resultSeq === seq));
    const key = call?.key ?? `e${seq}`;
    if (this.model.items.some((item) => item.key === key)) this.list.reveal(key);
    else toast("That event is not shown here");
  }

  // ── drawing ──────────────────────────────────────────────────────────────

  draw(item) {
    switch (item.kind) {
      case "call": return callCard(item, this.context);
      case "turn": return h("h2", { class: "turn-head" }, `Turn ${item.turn}`, h("span", { class: "dim" }, moment(item.time)));
      case "user": return this.said(item, item.source === "user" ? "You" : `Added by ${plain(item.plugin ?? item.source)}`, item.source === "user" ? "mine" : "added");
      case "assistant": return this.said(item, item.model ? `Model · ${plain(item.model)}` : "Model", "model");
      case "partial": return this.partial(item);
      default: return h("p", { class: `note ${item.tone ?? ""}` }, ...textNodes(item.text));
    }
  }

  said(item, who, kind) {
    const reasoning = item.content.filter((block) => block.type === "reasoning");
    const rest = item.content.filter((block) => block.type !== "reasoning");
    return h("section", { class: `said ${kind}`, "aria-label": who }, h("h2", { class: "who" }, who),
      reasoning.length ? h("details", { class: "reasoning" }, h("summary", {}, "Reasoning"), reasoning.map((block) => h("p", { class: "prose" }, ...textNodes(block.text)))) : null,
      rest.map((block) => block.type === "text" && block.text.length < 20000
        ? h("p", { class: "prose", dir: "auto" }, ...textNodes(block.text))
        : contentParts([block], item, this.context, false)),
      item.interrupted ? h("p", { class: "note warn" }, "The answer was cut short.") : null);
  }

  partial(item) {
    return h("section", { class: "said model writing", "aria-label": "Model, writing" }, h("h2", { class: "who" }, "Model · writing"),
      item.reasoning ? h("p", { class: "prose reasoning dim" }, ...textNodes(item.reasoning.slice(-4000))) : null,
      h("p", { class: "prose" }, ...textNodes(item.text.slice(-20000)), h("span", { class: "caret", "aria-hidden": "true" })));
  }
}
