// The waterfall of a session: one row a call, cut into what it waited for, ran, and was committed.
import { get } from "./api.js";
import { STATES } from "./cards.js";
import { duration, h, plain } from "./dom.js";

const SPANS = {
  waiting: "waiting for its turn", policy: "in policy", approval: "waiting for a person", running: "running", stopping: "stopping",
  review: "in review", commit: "waiting to be committed", model: "the model answers",
};

const STOPS = {
  cancelled: "It stopped when it was told to.", raised: "It failed when it was told to stop.",
  returned: "It ran to its end although it was told to stop; its late value was dropped.",
  killed: "It did not stop when it was told to; its process was killed.",
};

export class TimelineView {
  constructor(box, session) {
    this.box = box;
    this.session = session;
    this.timer = 0;
    this.selected = null;
    this.body = h("div", { class: "waterfall" });
    this.detail = h("div", { class: "stage-detail", "aria-live": "polite" }, h("p", { class: "dim" }, "Point at a row, or move to it with Tab, to see its stages."));
    box.append(this.body, this.detail);
  }

  leave() {
    clearTimeout(this.timer);
    this.gone = true;
  }

  refreshSoon() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.refresh();
    }, 400);
  }

  async refresh() {
    let steps;
    try {
      steps = await get("/api/timeline", { session: this.session });
    } catch (error) {
      this.body.replaceChildren(h("p", { class: "empty" }, plain(error.message)));
      return;
    }
    if (!this.gone) this.draw(steps);
  }

  draw(steps) {
    const focused = document.activeElement?.dataset?.seq;
    if (!steps.length) {
      this.body.replaceChildren(h("p", { class: "empty" }, "No step has begun yet."));
      return;
    }
    const legend = h("ul", { class: "legend", "aria-label": "Colours" },
      Object.entries(SPANS).map(([name, text]) => h("li", {}, h("span", { class: `swatch s-${name}`, "aria-hidden": "true" }), text)));
    this.body.replaceChildren(legend, ...steps.map((step) => this.step(step)));
    if (focused) this.body.querySelector(`[data-seq="${focused}"]`)?.focus();
  }

  step(step) {
    const ends = step.calls.map((call) => call.end ?? Date.now());
    const end = Math.max(step.end ?? 0, step.answered ?? 0, step.start + 1, ...ends);
    const scale = { start: step.start, span: end - step.start };
    const answered = step.answered ?? step.start;
    const model = { name: "model", start: step.start, end: answered };
    return h("section", { class: "tl-step", "aria-label": `Turn ${step.turn}, step ${step.step}` },
      h("h2", {}, step.turn ? `Turn ${step.turn} · step ${step.step}` : "Calls", h("span", { class: "dim" }, duration(end - step.start))),
      h("div", { class: "tl-row plain-row" }, h("span", { class: "tl-name dim" }, "model"),
        h("span", { class: "track" }, bar(model, scale)), h("span", { class: "tl-end dim" }, duration(answered - step.start))),
      step.calls.map((call) => this.row(call, scale, end)));
  }

  row(call, scale, stepEnd) {
    const until = call.end ?? stepEnd;
    const spans = call.end ? call.spans : [{ name: "running", start: call.start, end: until }];
    const [symbol, said] = STATES[call.outcome] ?? STATES.failed;
    const stages = spans.map((span) => `${SPANS[span.name]} ${duration(span.end - span.start)}`).join(", ");
    const show = () => this.show(call, spans, said);
    const name = h("span", { class: "tl-name" }, plain(call.name));
    name.style.paddingInlineStart = `${Math.min(call.depth, 6) * 0.9}rem`;
    return h("button", {
      type: "button", class: `tl-row ${call.outcome}`, "data-seq": call.seq, onclick: show, onfocus: show, onmouseenter: show,
    }, name, h("span", { class: "track" }, spans.map((span) => bar(span, scale))),
    h("span", { class: "tl-end" }, h("span", { class: "mark", "aria-hidden": "true" }, symbol), ` ${call.end ? duration(until - call.start) : "running"}`),
    h("span", { class: "sr" }, ` ${said}${stages ? `: ${stages}` : ""}`));
  }

  show(call, spans, said) {
    this.detail.replaceChildren(
      h("h2", {}, plain(call.name), " ", h("span", { class: "dim" }, plain(call.callId))),
      h("p", { class: `outcome ${call.outcome}` }, said, call.code ? ` · ${plain(call.code)}` : ""),
      call.stop ? h("p", {}, STOPS[call.stop] ?? plain(call.stop)) : null,
      h("dl", { class: "stages" }, spans.map((span) => [
        h("dt", {}, h("span", { class: `swatch s-${span.name}`, "aria-hidden": "true" }), SPANS[span.name]),
        h("dd", {}, duration(span.end - span.start))])),
      h("p", {}, h("a", { href: `#/session/${encodeURIComponent(this.session)}?at=${call.seq}` }, "Show the call")));
  }
}

function bar(span, scale) {
  const element = h("span", { class: `bar-part s-${span.name}` });
  element.style.left = `${((span.start - scale.start) / scale.span) * 100}%`;
  element.style.width = `max(2px, ${((span.end - span.start) / scale.span) * 100}%)`;
  return element;
}
