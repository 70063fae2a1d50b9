// Changes of a file, line by line: shown in one column or side by side.
import { count, h, plain, remember, remembered, textNodes } from "./dom.js";
import { codeNodes, familyOf } from "./highlight.js";

const CONTEXT = 3;
const MAX_CELLS = 4_000_000; // beyond this, comparing would hold up the page; the middle is shown as replaced
const MAX_LINES = 600;

/** Pair old and new lines; each entry is {sign, old, new, text}. */
export function changedLines(oldText, newText) {
  const before = oldText === null ? [] : splitLines(oldText);
  const after = splitLines(newText);
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (
    tail < before.length - head && tail < after.length - head &&
    before[before.length - 1 - tail] === after[after.length - 1 - tail]
  ) tail += 1;
  const lines = [];
  for (let at = 0; at < head; at += 1) lines.push({ sign: " ", old: at + 1, new: at + 1, text: before[at] });
  const middle = compare(before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  for (const [sign, oldAt, newAt, text] of middle) {
    lines.push({ sign, old: sign === "+" ? null : head + oldAt + 1, new: sign === "-" ? null : head + newAt + 1, text });
  }
  for (let at = tail; at > 0; at -= 1) {
    lines.push({ sign: " ", old: before.length - at + 1, new: after.length - at + 1, text: before[before.length - at] });
  }
  return lines;
}

function splitLines(text) {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

function compare(before, after) {
  const rows = before.length;
  const columns = after.length;
  if (rows * columns > MAX_CELLS) {
    return [...before.map((text, at) => ["-", at, 0, text]), ...after.map((text, at) => ["+", rows, at, text])];
  }
  const width = columns + 1;
  const common = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      common[i * width + j] = before[i] === after[j]
        ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && before[i] === after[j]) {
      found.push([" ", i, j, before[i]]);
      i += 1;
      j += 1;
    } else if (i < rows && (j === columns || common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push(["-", i, j, before[i]]);
      i += 1;
    } else {
      found.push(["+", i, j, after[j]]);
      j += 1;
    }
  }
  return found;
}

/** Leave out unchanged lines far from any change; a gap stands for them. */
function folded(lines) {
  const near = new Array(lines.length).fill(false);
  lines.forEach((line, at) => {
    if (line.sign === " ") return;
    for (let k = Math.max(0, at - CONTEXT); k <= Math.min(lines.length - 1, at + CONTEXT); k += 1) near[k] = true;
  });
  const kept = [];
  let skipped = 0;
  lines.forEach((line, at) => {
    if (near[at]) {
      if (skipped) kept.push({ sign: "⋯", text: count(skipped, "unchanged line") });
      skipped = 0;
      kept.push(line);
    } else skipped += 1;
  });
  if (skipped) kept.push({ sign: "⋯", text: count(skipped, "unchanged line") });
  return kept;
}

/** All diffs of a card, with the switch between one column and two. */
export function diffBody(diffs, onResize = () => {}) {
  const box = h("div", { class: "diffs" });
  const files = diffs.map((diff) => ({ diff, lines: folded(changedLines(diff.oldText, diff.newText)) }));
  const draw = () => {
    const split = remembered("diff", "inline") === "split";
    const choice = (label, value, pressed) =>
      h("button", {
        type: "button", class: "quiet", "aria-pressed": String(pressed),
        onclick: () => { remember("diff", value); draw(); onResize(); },
      }, label);
    const added = files.reduce((sum, file) => sum + file.lines.filter((line) => line.sign === "+").length, 0);
    const removed = files.reduce((sum, file) => sum + file.lines.filter((line) => line.sign === "-").length, 0);
    box.replaceChildren(
      h("div", { class: "diff-head" },
        h("span", { class: "added" }, `+${added}`), h("span", { class: "removed" }, `−${removed}`),
        h("span", { class: "push", role: "group", "aria-label": "Layout of changes" },
          choice("One column", "inline", !split), choice("Side by side", "split", split))),
      ...files.map((file) => fileTable(file, split)));
  };
  draw();
  return box;
}

function fileTable({ diff, lines }, split) {
  const family = familyOf("", diff.path);
  const shown = lines.slice(0, MAX_LINES);
  const rows = split ? splitRows(shown, family) : shown.map((line) => inlineRow(line, family));
  const kind = diff.oldText === null ? " (new text)" : "";
  return h("figure", { class: "diff" },
    h("figcaption", { class: "path" }, plain(diff.path) + kind),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Changes to ${plain(diff.path)}` },
      h("table", { class: split ? "split" : "inline" }, h("tbody", {}, rows))),
    lines.length > MAX_LINES ? h("p", { class: "more" }, `${count(lines.length - MAX_LINES, "more line")} not shown`) : null);
}

const NAMES = { "+": "added", "-": "removed", " ": "", "⋯": "gap" };
const SIGNS = { "+": "+", "-": "−", " ": "", "⋯": "⋯" };

function inlineRow(line, family) {
  return h("tr", { class: NAMES[line.sign] },
    h("td", { class: "no" }, line.old ?? ""), h("td", { class: "no" }, line.new ?? ""),
    h("td", { class: "sign" }, SIGNS[line.sign]),
    h("td", { class: "code" }, ...lineNodes(line, family)));
}

function splitRows(lines, family) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].sign === "⋯") {
      rows.push(h("tr", { class: "gap" }, h("td", { class: "no" }), h("td", { class: "code", colspan: 3 }, `⋯ ${lines[at].text}`)));
      at += 1;
      continue;
    }
    const left = [];
    const right = [];
    if (lines[at].sign === " ") {
      left.push(lines[at]);
      right.push(lines[at]);
      at += 1;
    } else {
      while (at < lines.length && lines[at].sign === "-") left.push(lines[at++]);
      while (at < lines.length && lines[at].sign === "+") right.push(lines[at++]);
    }
    for (let k = 0; k < Math.max(left.length, right.length); k += 1) {
      rows.push(h("tr", {}, ...half(left[k], "old", family), ...half(right[k], "new", family)));
    }
  }
  return rows;
}

function half(line, side, family) {
  const kind = line && line.sign !== " " ? NAMES[line.sign] : "";
  return [
    h("td", { class: `no ${kind}` }, line ? line[side] ?? "" : ""),
    h("td", { class: `code ${line ? kind : "none"}` }, ...(line ? lineNodes(line, family) : [])),
  ];
}

function lineNodes(line, family) {
  if (line.sign === "⋯") return textNodes(line.text);
  const text = line.text.length > 2000 ? `${line.text.slice(0, 2000)}…` : line.text;
  return codeNodes(text, family);
}
