// The tools of every scope: what they take and give, how they fared, and why some are hidden.
import { get } from "./api.js";
import { count, duration, freshId, h, moment, plain, textNodes } from "./dom.js";
import { schemaTable } from "./schema.js";
import { textBody } from "./text.js";
import { callForm } from "./toolform.js";

export class ToolsPage {
  constructor(app, main, where) {
    this.app = app;
    this.title = "Tools";
    this.scope = "";
    this.wanted = "";
    this.chosen = where.rest[0] ?? null;
    this.data = null;
    const scopeId = freshId();
    const filterId = freshId();
    this.select = h("select", { id: scopeId, onchange: (event) => { this.scope = event.target.value; this.draw(); } });
    this.list = h("nav", { class: "tool-list", "aria-label": "Tools" });
    this.detail = h("div", { class: "tool-detail" });
    main.append(h("h1", {}, "Tools"),
      h("div", { class: "filters" },
        h("div", { class: "field" }, h("label", { for: scopeId }, "As seen by"), this.select),
        h("div", { class: "field" }, h("label", { for: filterId }, "Filter by name or description"),
          h("input", { id: filterId, type: "search", autocomplete: "off", oninput: (event) => { this.wanted = event.target.value.toLowerCase(); this.drawList(); } }))),
      h("div", { class: "columns" }, this.list, this.detail));
    this.load();
  }

  accepts(where) {
    if (where.name !== "tools") return false;
    this.chosen = where.rest[0] ?? null;
    if (this.data) this.draw();
    return true;
  }

  leave() {
    clearTimeout(this.timer);
  }

  onMessage(kind) {
    if (kind !== "tools") return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 300);
  }

  async load() {
    try {
      this.data = await get("/api/tools");
    } catch (error) {
      this.detail.replaceChildren(h("p", { class: "problem" }, plain(error.message)));
      return;
    }
    if (!this.data.scopes.some((scope) => scope.name === this.scope)) this.scope = "";
    this.draw();
  }

  current() {
    return this.data.scopes.find((scope) => scope.name === this.scope);
  }

  draw() {
    this.select.replaceChildren(...this.data.scopes.map((scope) =>
      h("option", { value: scope.name, selected: scope.name === this.scope }, scope.name ? `agent ${plain(scope.name)}` : "everybody")));
    this.drawList();
    const scope = this.current();
    const tool = scope.tools.find((found) => found.name === this.chosen) ?? (this.chosen === null ? scope.tools[0] : null);
    const hidden = scope.hidden.find((found) => found.name === this.chosen);
    this.detail.replaceChildren(tool ? this.tool(tool) : hidden ? hiddenTool(hidden)
      : h("p", { class: "empty" }, this.chosen === null ? "No tools are registered." : "This scope has no such tool."));
  }

  drawList() {
    const scope = this.current();
    const fits = (tool) => `${tool.name} ${tool.description ?? ""}`.toLowerCase().includes(this.wanted);
    const link = (tool, isHidden) => h("li", {}, h("a", {
      href: `#/tools/${encodeURIComponent(tool.name)}`, class: isHidden ? "hidden-tool" : null,
      "aria-current": tool.name === (this.chosen ?? scope.tools[0]?.name) ? "true" : null,
    }, h("span", {}, plain(tool.name)), isHidden ? h("span", { class: "dim" }, "hidden") : this.rate(tool.name)));
    this.list.replaceChildren(
      h("p", { class: "dim" }, `${count(scope.tools.length, "tool")}, shown as ${plain(scope.mode)}`),
      h("ul", {}, scope.tools.filter(fits).map((tool) => link(tool, false)), scope.hidden.filter(fits).map((tool) => link(tool, true))));
  }

  rate(name) {
    const figure = this.data.figures[name];
    if (!figure) return null;
    return h("span", { class: figure.failures ? "rate some" : "rate" }, figure.failures ? `${figure.failures} of ${figure.calls} failed` : count(figure.calls, "call"));
  }

  tool(tool) {
    const flags = [
      tool.owner ? `registered by ${plain(tool.owner)}` : null, tool.timeoutMs ? `time limit ${duration(tool.timeoutMs)}` : null,
      tool.overlaps ? "may overlap" : "runs alone", tool.idempotent ? "may be repeated" : null, tool.isolation === "thread" ? "runs in a thread" : tool.isolation === "process" ? "runs in a process" : null,
    ].filter(Boolean);
    return h("article", { "aria-label": plain(tool.name) },
      h("h2", {}, h("code", {}, plain(tool.name))),
      h("ul", { class: "flags" }, flags.map((flag) => h("li", {}, flag))),
      h("p", { class: "prose" }, ...textNodes(tool.description)),
      h("h3", {}, "Parameters"), schemaTable(tool.parameters),
      h("h3", {}, "Signatures"),
      h("div", { class: "signatures" },
        h("div", {}, h("h4", {}, "TypeScript"), textBody(`(args: ${tool.typescript}) => Promise<${tool.typescriptOutput}>`, { family: "c", label: "TypeScript signature" })),
        h("div", {}, h("h4", {}, "Python"), textBody(tool.python, { family: "python", label: "Python signature" }))),
      this.data.calls ? [h("h3", {}, "Call it"), callForm(tool, this.scope)] : null,
      h("h3", {}, "Recent calls"), this.recent(tool.name));
  }

  recent(name) {
    const figure = this.data.figures[name];
    if (!figure) return h("p", { class: "none" }, "No calls in the newest sessions.");
    const percent = Math.round((figure.failures / figure.calls) * 100);
    return h("div", {},
      h("p", {}, `${count(figure.calls, "call")} in the newest sessions, ${percent} % failed.`),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Recent calls of ${plain(name)}` },
        h("table", { class: "list" },
          h("thead", {}, h("tr", {}, ["When", "Took", "Outcome", "Result"].map((text) => h("th", { scope: "col" }, text)))),
          h("tbody", {}, figure.recent.map((call) => h("tr", {},
            h("td", {}, h("a", { href: `#/session/${encodeURIComponent(call.session)}?at=${call.seq}` }, moment(call.time))),
            h("td", { class: "right" }, duration(call.took)),
            h("td", { class: call.isError ? "bad" : "good" }, call.isError ? plain(call.code ?? "failed") : "ok"),
            h("td", { class: "snippet" }, plain(call.text))))))));
  }
}

function hiddenTool(tool) {
  return h("article", { "aria-label": plain(tool.name) }, h("h2", {}, h("code", {}, plain(tool.name))),
    h("p", {}, "This tool is hidden from this scope:"),
    h("ul", { class: "reasons" }, tool.by.map((mask) => h("li", {}, `a restriction of scope `, h("code", {}, plain(mask.scope)),
      mask.denied ? " denies it by name" : mask.allows.length ? ` allows only ${mask.allows.map(plain).join(", ")}` : " allows nothing that is inherited"))));
}
