// Cards: one call, from its start to its result. The heading says what and how it went; the body shows it.
import { address } from "./api.js";
import { diffBody } from "./diff.js";
import { count, duration, h, moment, plain, textNodes } from "./dom.js";
import { familyOf } from "./highlight.js";
import { recordFacts, verdictTable } from "./record.js";
import { jsonBody, textBody } from "./text.js";

export const STATES = {
  queued: ["◌", "waits for its turn"], running: ["◌", "running"], stopping: ["◍", "is stopping"], asking: ["?", "waits for approval"], ok: ["✓", "succeeded"], failed: ["✗", "failed"],
  denied: ["⊘", "denied"], cancelled: ["⊝", "cancelled"], "timed-out": ["◔", "timed out"],
  interrupted: ["!", "interrupted"],
};
const KINDS = {
  read: "Read", edit: "Edit", delete: "Delete", move: "Move", search: "Search", execute: "Run", fetch: "Fetch", other: "Tool",
};

/** The card of a call, with the cards of the calls that its program made inside. */
export function callCard(item, context = {}, level = 0) {
  const [symbol, said] = STATES[item.state] ?? STATES.failed;
  const title = titleOf(item);
  const took = item.endTime ? duration(item.endTime - item.time) : "";
  const code = item.code && item.state !== "ok" ? item.code : "";
  const heading = h(level ? "h3" : "h2", { class: "card-head" },
    h("span", { class: "mark", "aria-hidden": "true" }, symbol),
    h("bdi", { class: isCommand(item) ? "title command" : "title" }, title),
    h("span", { class: "tool" }, plain(item.name)),
    h("span", { class: "kind" }, kindOf(item)),
    h("span", { class: "state" }, said + (code ? ` · ${plain(code)}` : "")),
    h("span", { class: "took" }, took));
  return h("section", { class: `card ${item.state} is-${bodyKind(item)}`, "aria-label": `${plain(item.name)}: ${said}` },
    heading, ...bodyOf(item, context, nested(item, context, level)), details(item, context));
}

function titleOf(item) {
  const purpose = item.name === "run_code" && typeof item.arguments?.description === "string" ? item.arguments.description.trim() : "";
  const title = item.resultView?.title ?? item.callView?.title ?? item.resultView?.path ?? (purpose || item.name);
  return plain(String(title).slice(0, 400));
}

function isCommand(item) {
  return item.callView?.card === "terminal" && !item.resultView?.title;
}

function bodyKind(item) {
  return item.resultView?.card ?? (item.name === "run_code" ? "program" : item.callView?.card ?? "generic");
}

function kindOf(item) {
  if (item.name === "run_code") return "Program";
  const shown = item.resultView?.card ?? "generic";
  const card = shown === "generic" ? item.callView?.card : shown;
  if (card === "terminal") return "Command";
  if (card === "diff") return "Change";
  if (card === "search") return "Search";
  if (card === "read") return "Read";
  if (card === "web") return "Web";
  return KINDS[item.callView?.kind] ?? "Tool";
}

/** What is between heading and details; the calls of a program come after its text and before its result. */
function bodyOf(item, context, calls) {
  const parts = [];
  const view = item.callView;
  if (item.name === "run_code" && typeof item.arguments?.code === "string") parts.push(program(item, context));
  if (view?.card === "terminal") {
    const rest = view.title.split("\n").slice(1).join("\n");
    if (rest) parts.push(textBody(rest, { ...textOptions(item, context, "command"), family: "shell", label: "Command" }));
    if (view.description) parts.push(h("p", { class: "about" }, plain(view.description)));
    if (view.cwd) parts.push(h("p", { class: "about" }, "in ", h("code", {}, plain(view.cwd))));
  }
  parts.push(...calls);
  if (["queued", "running", "stopping", "asking"].includes(item.state)) {
    if (view?.card === "diff") parts.push(diffBody(view.diffs, context.onResize));
    else if (view?.content) parts.push(...contentParts(view.content, item, context, false));
    if (item.progress) parts.push(textBody(item.progress, { ...textOptions(item, context, "progress"), ansi: true, tail: true, label: "Output so far" }));
    if (item.state === "asking") parts.push(h("p", { class: "asks" }, "Somebody has to allow this. ", h("a", { href: "#/approvals" }, "Answer it in the inbox")));
    return parts;
  }
  parts.push(...resultParts(item, context));
  return parts;
}

function resultParts(item, context) {
  const view = item.resultView;
  switch (view?.card) {
    case "terminal": return terminalParts(view, item, context);
    case "diff": return [diffBody(view.diffs, context.onResize)];
    case "search": return view.shape === "matches" ? matchParts(view, item, context) : pathParts(view, item, context);
    case "read": return readParts(view, item, context);
    case "web": return view.kind === "search" ? webSearchParts(view, item, context) : webFetchParts(view, item, context);
    default: return contentParts(view?.content ?? item.content ?? [], item, context, item.name !== "run_code" && item.isError);
  }
}

function textOptions(item, context, key) {
  item.ui ??= {};
  item.ui[key] ??= {};
  return { ui: item.ui[key], onResize: context.onResize };
}

function rawAddress(item, context) {
  return item.clipped && context.session ? address("/api/raw", { session: context.session, seq: item.resultSeq ?? item.seq }) : null;
}

function terminalParts(view, item, context) {
  const parts = [];
  if (view.output) {
    parts.push(textBody(view.output, { ...textOptions(item, context, "output"), ansi: true, label: "Output", raw: rawAddress(item, context) }));
  } else if (view.output === "") parts.push(h("p", { class: "none" }, "No output"));
  if (view.signal) parts.push(h("p", { class: "ending bad" }, `killed by ${plain(view.signal)}`));
  else if (view.exitCode !== undefined) parts.push(h("p", { class: view.exitCode === 0 ? "ending" : "ending bad" }, `exit code ${view.exitCode}`));
  return parts;
}

function matchParts(view, item, context) {
  const options = textOptions(item, context, "matches");
  const limit = options.ui.files ?? 12;
  const parts = view.files.slice(0, limit).map((file) =>
    h("div", { class: "file" }, h("p", { class: "path" }, plain(file.path)),
      h("div", { class: "pre numbered", tabindex: "0", role: "group", "aria-label": `Matches in ${plain(file.path)}` },
        file.matches.slice(0, 30).map((match) => h("div", { class: "line" },
          h("span", { class: "no" }, String(match.lineNumber)),
          h("span", { class: "content" }, ...textNodes(match.line.slice(0, 1000))))))));
  parts.push(moreButton(view.files.length - limit, "file", item, context, () => { options.ui.files = limit + 100; }));
  const shown = view.files.reduce((sum, file) => sum + file.matches.length, 0);
  parts.push(closing(shown, view, "match", "matches"));
  return parts;
}

function pathParts(view, item, context) {
  const options = textOptions(item, context, "paths");
  const limit = options.ui.paths ?? 16;
  return [
    h("ul", { class: "paths" }, view.paths.slice(0, limit).map((path) => h("li", { class: "path" }, plain(path)))),
    moreButton(view.paths.length - limit, "path", item, context, () => { options.ui.paths = limit + 400; }),
    closing(view.paths.length, view, "path", "paths"),
  ];
}

function moreButton(left, noun, item, context, open) {
  if (left <= 0) return null;
  return h("p", { class: "more" }, h("button", { type: "button", class: "quiet", onclick: () => { open(); context.redraw?.(item); } },
    `Show ${count(left, `more ${noun}`)}`));
}

function closing(shown, view, one, many) {
  const text = shown < view.total ? `first ${shown.toLocaleString("en")} of ${count(view.total, one, many)}` : count(view.total, one, many);
  return h("p", { class: "ending" }, view.truncated && shown >= view.total ? `${text}, cut short` : text);
}

function readParts(view, item, context) {
  if (!view.lines.length) {
    return [...contentParts(view.content ?? item.content ?? [], item, context, false),
      h("p", { class: "ending" }, `no lines from ${view.offset} on; ${count(view.totalLines, "line")} in all`)];
  }
  const text = view.lines.map((line) => line.text.replace(/\r?\n$/, "")).join("\n");
  return [
    textBody(text, {
      ...textOptions(item, context, "read"), numbers: view.lines[0].number, family: familyOf(view.lang, view.path),
      label: `Lines of ${plain(view.path)}`, raw: rawAddress(item, context),
    }),
    h("p", { class: "ending" }, `lines ${view.lines[0].number}–${view.lines.at(-1).number} of ${view.totalLines.toLocaleString("en")}`),
  ];
}

function webSearchParts(view, item, context) {
  return [
    view.answer ? h("p", { class: "prose" }, ...textNodes(view.answer)) : null,
    h("ol", { class: "sources" }, view.sources.map((source) => h("li", {},
      source.title ? h("p", { class: "source-title" }, h("bdi", {}, plain(source.title))) : null,
      h("p", { class: "url" }, plain(source.url), source.publishedAt ? h("span", { class: "dim" }, ` · ${plain(source.publishedAt)}`) : null),
      source.snippet ? h("p", { class: "snippet" }, ...textNodes(source.snippet)) : null))),
    h("p", { class: "ending" }, count(view.sources.length, "source") + (view.truncated ? ", cut short" : "")),
  ];
}

function webFetchParts(view, item, context) {
  return [
    h("p", { class: "url" }, plain(view.url)),
    ...contentParts(item.content ?? [], item, context, false),
    h("p", { class: view.statusCode < 400 ? "ending" : "ending bad" }, `status ${view.statusCode}${view.truncated ? ", cut short" : ""}`),
  ];
}

const IMAGES = /^image\/(png|jpeg|gif|webp)$/;

/** Blocks of content: texts, images, JSON values. */
export function contentParts(blocks, item, context, isError) {
  if (!blocks.length) return [h("p", { class: "none" }, "No output")];
  return blocks.map((block, at) => {
    const options = { ...textOptions(item, context, `content-${at}`), raw: rawAddress(item, context), label: "Result" };
    if (block.type === "image") return image(block);
    if (block.type === "json") return jsonBody(block.value, options);
    const body = textBody(String(block.text ?? ""), { ...options, ansi: true });
    if (isError) body.classList.add("bad");
    return body;
  });
}

function image(block) {
  if (!IMAGES.test(block.mimeType) || !/^[A-Za-z0-9+/=\s]*$/.test(block.data)) {
    return h("p", { class: "none" }, `An image that is not shown (${plain(block.mimeType)})`);
  }
  return h("img", { class: "picture", src: `data:${block.mimeType};base64,${block.data}`, alt: "Image in the result" });
}

function program(item, context) {
  const family = /\b(await|const|let|=>)\b|;\s*$/m.test(item.arguments.code) && !/^\s*(def|import|from)\b/m.test(item.arguments.code) ? "c" : "python";
  return textBody(item.arguments.code, { ...textOptions(item, context, "program"), numbers: 1, family, label: "Program" });
}

function nested(item, context, level) {
  if (!item.subs?.length) return [];
  return [h("div", { class: "subs", role: "group", "aria-label": "Calls of the program" },
    h("p", { class: "subs-head" }, count(item.subs.length, "call") + " of the program"),
    item.subs.slice(0, 200).map((sub) => callCard(sub, context, level + 1)),
    item.subs.length > 200 ? h("p", { class: "none" }, `${item.subs.length - 200} more not shown`) : null)];
}

function details(item, context) {
  const shown = item.ui?.open === true;
  const box = h("details", { class: "raw", open: shown });
  const fill = () => {
    if (!box.open || box.childElementCount > 1) return;
    const hasArguments = item.arguments !== undefined;
    box.append(
      h("dl", { class: "facts" },
        h("dt", {}, "Call"), h("dd", {}, plain(item.callId)),
        h("dt", {}, "Started"), h("dd", {}, moment(item.time)),
        item.approval ? [h("dt", {}, "Approval"), h("dd", {}, plain(item.approval))] : [],
        recordFacts(item.record)),
      ...verdictTable(item.record),
      h("p", { class: "label" }, "Arguments"),
      hasArguments ? jsonBody(item.arguments, textOptions(item, context, "arguments"))
        : textBody(String(item.argumentsText ?? ""), { ...textOptions(item, context, "arguments"), label: "Arguments as written" }),
      ...(item.content && item.resultView ? [h("p", { class: "label" }, "What the model read"), ...contentParts(item.content, { ...item, ui: (item.ui.plain ??= {}) }, context, item.isError)] : []));
  };
  box.append(h("summary", {}, "Arguments and details"));
  box.addEventListener("toggle", () => {
    (item.ui ??= {}).open = box.open;
    fill();
    context.onResize?.();
  });
  if (shown) fill();
  return box;
}
