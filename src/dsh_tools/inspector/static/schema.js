// A JSON Schema as a table: one row a property, nested ones indented.
import { h, plain, textNodes } from "./dom.js";

const MAX_ROWS = 200;
const MAX_DEPTH = 6;

/** A short name of what a schema accepts. */
export function typeName(schema) {
  if (schema === true || schema === undefined) return "any";
  if (schema === false) return "never";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const branches = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(branches)) return branches.map(typeName).join(" | ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `array of ${schema.items ? typeName(schema.items) : "any"}`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type ?? "any";
}

const LIMITS = {
  minimum: "≥", maximum: "≤", exclusiveMinimum: ">", exclusiveMaximum: "<", minLength: "length ≥", maxLength: "length ≤",
  minItems: "items ≥", maxItems: "items ≤", pattern: "matches", format: "format", multipleOf: "multiple of",
};

function rowsOf(schema, depth, rows) {
  const required = new Set(schema.required ?? []);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (rows.length >= MAX_ROWS) return;
    const about = typeof property === "object" && property !== null ? property : {};
    const limits = Object.entries(LIMITS).filter(([key]) => about[key] !== undefined).map(([key, sign]) => `${sign} ${about[key]}`);
    const label = h("th", { scope: "row" }, h("code", {}, plain(name)));
    label.style.paddingInlineStart = `${0.6 + depth * 1.1}rem`;
    rows.push(h("tr", {}, label,
      h("td", {}, h("code", {}, plain(typeName(property).slice(0, 300)))),
      h("td", {}, required.has(name) ? "yes" : "no"),
      h("td", {}, ...textNodes(String(about.description ?? "")),
        about.default === undefined ? null : h("span", { class: "dim" }, ` Default: ${plain(JSON.stringify(about.default))}.`),
        limits.length ? h("span", { class: "dim" }, ` ${plain(limits.join(", "))}`) : null)));
    const inner = about.type === "array" && about.items ? about.items : about;
    if (depth < MAX_DEPTH && inner && inner.properties) rowsOf(inner, depth + 1, rows);
  }
}

export function schemaTable(schema) {
  const rows = [];
  rowsOf(schema ?? {}, 0, rows);
  if (!rows.length) return h("p", { class: "none" }, "It takes no named parameters.");
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Parameters" },
    h("table", { class: "list schema" },
      h("thead", {}, h("tr", {}, ["Name", "Type", "Required", "About"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows)));
}
