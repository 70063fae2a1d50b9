// Colours of a terminal, read into class names. What is no colour is dropped; nothing is obeyed.

// CSI, OSC and other strings, and two-character escapes. An unfinished sequence is taken to the end of the text.
const ESCAPES = /\u001b\[([0-9;:?<=>!]*)([ -/]*)([@-~])?|\u001b[\]PX^_](?:[^\u0007\u001b]|\u001b(?!\\))*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_a-z0-9=>]?|\u009b[0-9;:]*[@-~]?/g;

/** Split text into pieces, each {text, classes}. */
export function ansiPieces(text) {
  if (!text.includes("\u001b") && !text.includes("\u009b")) return [{ text, classes: "" }];
  const pieces = [];
  const style = { fg: null, bg: null, flags: new Set() };
  let from = 0;
  const flush = (to) => {
    if (to > from) pieces.push({ text: text.slice(from, to), classes: classesOf(style) });
  };
  for (const match of text.matchAll(ESCAPES)) {
    flush(match.index);
    from = match.index + match[0].length;
    if (match[3] === "m" && !match[2]) apply(style, match[1]);
  }
  flush(text.length);
  return pieces;
}

const FLAGS = { 1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "reverse", 9: "strike" };
const ENDS = { 22: ["bold", "faint"], 23: ["italic"], 24: ["underline"], 27: ["reverse"], 29: ["strike"] };

function apply(style, parameters) {
  const codes = parameters.split(/[;:]/).map((part) => (part === "" ? 0 : Number(part)));
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) {
      style.fg = style.bg = null;
      style.flags.clear();
    } else if (FLAGS[code]) style.flags.add(FLAGS[code]);
    else if (ENDS[code]) ENDS[code].forEach((flag) => style.flags.delete(flag));
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 39) style.fg = null;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const [colour, used] = wide(codes.slice(at + 1));
      if (code === 38) style.fg = colour;
      else style.bg = colour;
      at += used;
    }
  }
}

/** Colours of 256 or of 24 bits become the nearest of the 16, so that contrast holds in both themes. */
function wide(rest) {
  if (rest[0] === 5) {
    const index = rest[1] ?? 0;
    if (index < 16) return [index, 2];
    if (index >= 232) return [index < 244 ? 8 : 7, 2];
    const cube = index - 16;
    return [nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51), 2];
  }
  if (rest[0] === 2) return [nearest(rest[1] ?? 0, rest[2] ?? 0, rest[3] ?? 0), 4];
  return [null, 0];
}

function nearest(red, green, blue) {
  const strongest = Math.max(red, green, blue);
  if (strongest < 48) return 0;
  const half = strongest / 2;
  return (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0) + (strongest > 200 ? 8 : 0);
}

function classesOf(style) {
  const classes = [...style.flags].map((flag) => `a-${flag}`);
  if (style.fg !== null) classes.push(`a-fg${style.fg}`);
  if (style.bg !== null) classes.push(`a-bg${style.bg}`);
  return classes.join(" ");
}

/** A line as a terminal would leave it: what stands after the last return overwrites what came before. */
export function settledLine(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const at = text.lastIndexOf("\r");
  return at < 0 ? text : text.slice(at + 1);
}
