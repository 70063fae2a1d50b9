// Making elements. Text only ever becomes text: there is no way from a string to markup here.

/** Make an element: h("p", {class: "dim", onclick: f}, "text", child). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Characters that reorder or hide text, and control characters: shown, not obeyed.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "gu");

/** One line of untrusted text, for titles: controls become visible marks. */
export function plain(text) {
  return String(text ?? "")
    .replace(/\s*[\n\r]+\s*/g, " ⏎ ")
    .replace(HIDDEN_ALL, mark);
}

/** Untrusted text as nodes: hidden characters become small labelled boxes. */
export function textNodes(text) {
  if (!HIDDEN.test(text)) return [document.createTextNode(text)];
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    nodes.push(h("span", { class: "ctl" }, mark(match[0])));
    from = match.index + match[0].length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

function mark(char) {
  const code = char.codePointAt(0);
  if (code < 32) return String.fromCodePoint(0x2400 + code);
  if (code === 127) return "␡";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms >= 60000) return `${(ms / 60000).toFixed(1)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms < 10 && ms % 1 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export function moment(ms) {
  const date = new Date(ms);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

let names = 0;
/** A fresh id, to tie labels to fields. */
export function freshId(prefix = "f") {
  names += 1;
  return `${prefix}-${names}`;
}

/** A line in the corner that goes away by itself; also read out. */
export function toast(text, kind = "") {
  const line = h("p", { class: `toast ${kind}` }, plain(text));
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 8000);
}

export function remembered(key, fallback) {
  try {
    return localStorage.getItem(`dsh-inspect-${key}`) ?? fallback;
  } catch {
    return fallback; // storage is switched off
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(`dsh-inspect-${key}`, value);
  } catch {
    // Storage is switched off; the choice lasts as long as the page.
  }
}
