// Long text, shown in portions: a few lines first, very long lines cut, the rest on request.
import { ansiPieces, settledLine } from "./ansi.js";
import { count, h, textNodes } from "./dom.js";
import { codeNodes } from "./highlight.js";

const FIRST_LINES = 24;
const MORE_LINES = 400;
const LINE_LENGTH = 1000;
const MORE_LENGTH = 20000;

/**
 * Show a text.
 * @param options ansi: read colours; family: colour as program text; numbers: first line's number;
 *   ui: keeps how much was opened when the card is drawn again; raw: address of the whole text; tail: show the end.
 */
export function textBody(text, options = {}) {
  const ui = options.ui ?? {};
  const lines = text.split("\n");
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  const box = h("div", { class: "text" });
  const draw = () => {
    const limit = ui.lines ?? FIRST_LINES;
    const from = options.tail ? Math.max(0, lines.length - limit) : 0;
    const shown = lines.slice(from, from + limit);
    const first = (options.numbers ?? 1) + from;
    const pre = h("div", {
      class: options.numbers ? "pre numbered" : "pre", tabindex: "0", role: "group", "aria-label": options.label ?? "Text",
    }, shown.map((line, at) => lineElement(line, first + at, options, ui)));
    const left = lines.length - shown.length;
    const opens = (label, amount) => h("button", {
      type: "button", class: "quiet", onclick: () => { ui.lines = limit + amount; draw(); options.onResize?.(); },
    }, label);
    box.replaceChildren(...[
      pre,
      left > 0 ? h("p", { class: "more" }, opens(`Show ${count(Math.min(left, MORE_LINES), "more line")}`, MORE_LINES), ` of ${lines.length.toLocaleString("en")}`) : null,
      options.raw ? h("p", { class: "more" }, "Cut for this page. ", h("a", { href: options.raw, download: "" }, "Download the whole text")) : null,
    ].filter(Boolean));
  };
  draw();
  return box;
}

function lineElement(line, number, options, ui) {
  const element = h("div", { class: "line" });
  if (options.numbers) element.append(h("span", { class: "no", "aria-hidden": "true" }, String(number)));
  const key = `line-${number}`;
  const limit = ui[key] ?? LINE_LENGTH;
  // Escape sequences take room in the text and none on the screen.
  const raw = options.ansi ? settledLine(line.slice(0, limit * 20)) : line;
  const cut = raw.length > limit ? raw.slice(0, limit) : raw;
  element.append(h("span", { class: "content" }, ...nodesOf(cut, options)));
  if (line.length > limit) {
    element.append(h("button", {
      type: "button", class: "quiet more-line", onclick: (event) => {
        ui[key] = limit + MORE_LENGTH;
        const again = lineElement(line, number, options, ui);
        event.target.closest(".line").replaceWith(again);
        options.onResize?.();
      },
    }, `… ${(line.length - limit).toLocaleString("en")} more characters`));
  }
  return element;
}

function nodesOf(text, options) {
  if (options.ansi) {
    return ansiPieces(text).map((piece) =>
      piece.classes ? h("span", { class: piece.classes }, ...textNodes(piece.text)) : textNodes(piece.text)).flat();
  }
  return options.family ? codeNodes(text, options.family) : textNodes(text);
}

/** A JSON value, spread out. */
export function jsonBody(value, options = {}) {
  let text;
  try {
    text = JSON.stringify(value, null, 2) ?? "null";
  } catch {
    text = "(too deeply nested to show)";
  }
  return textBody(text, { family: "c", label: "JSON value", ...options });
}
