// Colours for program text: one pass over a line, good enough to read by.
import { h, textNodes } from "./dom.js";

const C_LIKE = "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false final finally for from function get if implements import in instanceof interface keyof let namespace never new null number of package private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while with yield";
const WORDS = {
  c: `${C_LIKE} auto bool char double extern float fn func go impl int long match mod mut package pub range self Self short signed sizeof struct template trait union unsafe unsigned use using virtual where defer chan map`,
  python: "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield",
  shell: "if then else elif fi for while do done case esac function in return export local readonly set unset exit echo cd",
  plain: "",
};
const SETS = Object.fromEntries(Object.entries(WORDS).map(([name, words]) => [name, new Set(words.split(" "))]));

const FAMILY = {
  py: "python", python: "python", toml: "shell", yaml: "shell", yml: "shell", ini: "shell", make: "shell",
  makefile: "shell", sh: "shell", bash: "shell", shell: "shell", zsh: "shell", dockerfile: "shell", ruby: "python",
  text: "plain", txt: "plain", md: "plain", markdown: "plain", rst: "plain", html: "plain", xml: "plain", csv: "plain",
};

const HASH = /(#.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;
const SLASH = /(\/\/.*$|\/\*.*?(?:\*\/|$))|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*`?)|(\b\d[\w.]*)|([A-Za-z_$][\w$]*)/g;

export function familyOf(language, path = "") {
  const name = (language || path.split(".").pop() || "").toLowerCase();
  return FAMILY[name] ?? (language || /\.\w+$/.test(path) ? "c" : "plain");
}

/** The nodes of one line. */
export function codeNodes(line, family) {
  if (family === "plain" || line.length > 2000) return textNodes(line);
  const pattern = family === "c" ? SLASH : HASH;
  const words = SETS[family];
  const nodes = [];
  let from = 0;
  for (const match of line.matchAll(pattern)) {
    const kind = match[1] ? "comment" : match[2] ? "string" : match[3] ? "number" : words.has(match[4]) ? "word" : "";
    if (!kind) continue;
    if (match.index > from) nodes.push(...textNodes(line.slice(from, match.index)));
    nodes.push(h("span", { class: `t-${kind}` }, ...textNodes(match[0])));
    from = match.index + match[0].length;
  }
  if (from < line.length) nodes.push(...textNodes(line.slice(from)));
  return nodes;
}
