// A form to call a tool through the whole pipeline: fields from its schema, or its arguments as JSON.
import { post } from "./api.js";
import { callCard } from "./cards.js";
import { freshId, h, plain } from "./dom.js";
import { typeName } from "./schema.js";

export function callForm(tool, scope) {
  const properties = Object.entries(tool.parameters?.properties ?? {});
  const required = new Set(tool.parameters?.required ?? []);
  const fields = properties.map(([name, schema]) => field(name, schema ?? {}, required.has(name)));
  const jsonId = freshId();
  const json = h("textarea", { id: jsonId, rows: "5", spellcheck: "false" });
  const asJson = h("details", { class: "as-json" }, h("summary", {}, "Arguments as JSON instead"),
    h("label", { for: jsonId }, "JSON text, sent as a model would write it"), json);
  const outcome = h("div", { class: "outcome-box", "aria-live": "polite" });
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit" }, "Call");
  const run = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    let sent;
    try {
      sent = asJson.open && json.value.trim() ? json.value : Object.fromEntries(fields.map((one) => one.read()).filter(Boolean));
    } catch (error) {
      problem.textContent = error.message;
      return;
    }
    button.disabled = true;
    outcome.replaceChildren(h("p", { class: "dim" }, "Running… If it needs approval, it waits in the inbox."));
    const time = Date.now();
    try {
      const result = await post("/api/call", { scope, name: tool.name, arguments: sent });
      const item = {
        kind: "call", seq: -1, callId: "from this page", name: tool.name, arguments: typeof sent === "string" ? undefined : sent,
        argumentsText: typeof sent === "string" ? sent : undefined, callView: result.callView, resultView: result.view, content: result.content,
        isError: result.isError, code: result.code, state: result.isError ? "failed" : "ok", time, endTime: time + result.took, subs: [], ui: {},
      };
      outcome.replaceChildren(callCard(item, { redraw: () => outcome.replaceChildren(callCard(item)) }));
    } catch (error) {
      outcome.replaceChildren();
      problem.textContent = error.message;
    }
    button.disabled = false;
  };
  return h("form", { class: "call-form", onsubmit: run, novalidate: true }, fields.map((one) => one.element), asJson, h("p", {}, button), problem, outcome);
}

function field(name, schema, isRequired) {
  const id = freshId();
  const kind = Array.isArray(schema.enum) ? "enum" : schema.type;
  let input;
  let read;
  if (kind === "enum") {
    input = h("select", { id }, isRequired ? null : h("option", { value: "" }, "(not sent)"),
      schema.enum.map((value, at) => h("option", { value: String(at) }, plain(String(value)))));
    read = () => (input.value === "" ? null : [name, schema.enum[Number(input.value)]]);
  } else if (kind === "boolean") {
    input = h("select", { id }, isRequired ? null : h("option", { value: "" }, "(not sent)"), h("option", { value: "true" }, "true"), h("option", { value: "false" }, "false"));
    read = () => (input.value === "" ? null : [name, input.value === "true"]);
  } else if (kind === "string") {
    input = h("textarea", { id, rows: "1", spellcheck: "false" });
    read = () => (input.value === "" && !isRequired ? null : [name, input.value]);
  } else if (kind === "number" || kind === "integer") {
    input = h("input", { id, type: "text", inputmode: "decimal" });
    read = () => {
      if (input.value.trim() === "") return null;
      const value = Number(input.value);
      if (Number.isNaN(value)) throw new Error(`${name}: this is not a number`);
      return [name, value];
    };
  } else {
    input = h("textarea", { id, rows: "2", spellcheck: "false" });
    read = () => {
      if (input.value.trim() === "") return null;
      try {
        return [name, JSON.parse(input.value)];
      } catch {
        throw new Error(`${name}: this is not JSON`);
      }
    };
  }
  const hint = schema.default === undefined ? "" : `, by default ${JSON.stringify(schema.default)}`;
  const element = h("div", { class: "field" },
    h("label", { for: id }, h("code", {}, plain(name)), h("span", { class: "dim" }, ` ${plain(typeName(schema).slice(0, 80))}${isRequired ? ", required" : ""}${plain(hint)}`)), input);
  return { element, read };
}
