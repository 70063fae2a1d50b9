// The approval inbox: what waits for an answer now, and answering it. The first answer counts, on whichever page.
import { get, post, server } from "./api.js";
import { callCard } from "./cards.js";
import { freshId, h, moment, plain, toast } from "./dom.js";
import { jsonBody } from "./text.js";

export class ApprovalsPage {
  constructor(app, main) {
    this.app = app;
    this.title = "Approvals";
    this.cards = new Map();
    this.list = h("div", { class: "inbox" });
    this.elsewhere = h("div", {});
    main.append(h("h1", {}, "Approvals"), this.list, this.elsewhere);
    this.draw();
    this.loadElsewhere();
  }

  onMessage(kind) {
    if (kind === "approvals") this.draw();
    else if (kind === "decided" || kind === "sessions") this.loadElsewhere();
  }

  draw() {
    const pending = new Set(this.app.approvals.map((question) => question.id));
    for (const [id, card] of this.cards) {
      if (pending.has(id)) continue;
      const held = card.contains(document.activeElement);
      card.remove();
      this.cards.delete(id);
      if (held) document.getElementById("main").focus();
    }
    this.list.querySelector(".empty")?.remove();
    for (const question of this.app.approvals) {
      if (this.cards.has(question.id)) continue; // what somebody types into it stays
      const card = questionCard(question);
      this.cards.set(question.id, card);
      this.list.append(card);
    }
    if (!this.app.approvals.length) {
      this.list.append(h("p", { class: "empty" }, server.about.answers || server.about.live
        ? "Nothing waits for an answer." : "This page looks at a file; questions are answered where the application runs."));
    }
  }

  async loadElsewhere() {
    let found;
    try {
      found = await get("/api/approvals");
    } catch {
      return; // the stream says when the server is back
    }
    const open = found.elsewhere;
    this.elsewhere.replaceChildren(...(open.length ? [
      h("h2", {}, "Open in stored sessions"),
      h("p", { class: "dim" }, "These were asked by another process, or by one that ended before the answer. They can't be answered from here."),
      open.map((asked) => h("section", { class: "question old", "aria-label": `Open question about ${plain(asked.toolName)}` },
        h("h3", {}, plain(asked.toolName), " ", h("a", { href: `#/session/${encodeURIComponent(asked.session)}` }, plain(asked.session))),
        asked.reason ? h("p", {}, plain(asked.reason)) : null,
        asked.arguments === undefined ? null : jsonBody(asked.arguments, { label: "Arguments" })))].flat() : []));
  }
}

function questionCard(question) {
  const reasonId = freshId();
  const problem = h("p", { class: "problem", role: "alert" });
  const reason = h("input", { id: reasonId, type: "text", autocomplete: "off", placeholder: "The model reads it" });
  const item = {
    kind: "call", seq: -1, callId: question.callId ?? "", name: question.toolName, arguments: question.arguments,
    callView: question.view, state: "asking", time: question.since || Date.now(), subs: [], ui: {},
  };
  const send = async (outcome, remember = null) => {
    card.setAttribute("aria-busy", "true");
    for (const button of card.querySelectorAll("button.answer")) button.disabled = true;
    try {
      const answer = await post(`/api/approvals/${encodeURIComponent(question.id)}`, {
        outcome, digest: question.argumentsDigest, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}), ...(remember ? { remember } : {}),
      });
      if (!answer.accepted) toast("Somebody else was faster: this question is over", "warn");
    } catch (error) {
      problem.textContent = error.message;
      for (const button of card.querySelectorAll("button.answer")) button.disabled = false;
    }
    card.removeAttribute("aria-busy");
  };
  const answer = (label, kind, action) => h("button", { type: "button", class: `answer ${kind}`, onclick: action }, label);
  const asks = question.purpose === "call" ? "wants to run" : `asks for ${plain(question.purpose)}`;
  const card = h("section", { class: "question", "aria-label": `Question about ${plain(question.toolName)}`, "data-id": question.id },
    h("h2", {}, h("strong", {}, plain(question.toolName)), ` ${asks}`),
    h("p", { class: "dim" }, [
      question.agent ? `agent ${plain(question.agent)}` : null, question.since ? `since ${moment(question.since)}` : null,
    ].filter(Boolean).join(" · "), question.session ? [" · ", h("a", { href: `#/session/${encodeURIComponent(question.session)}` }, "session")] : null),
    question.reason ? h("p", { class: "why" }, h("span", { class: "label" }, "Why you are asked: "), plain(question.reason)) : null,
    callCard(item),
    h("p", { class: "label" }, "Arguments, exactly as they will run"),
    question.arguments === undefined ? h("p", { class: "none" }, "none") : jsonBody(question.arguments, { label: "Arguments", ui: item.ui }),
    question.clipped ? h("p", { class: "note warn" }, "The arguments are longer than this page shows.") : null,
    h("div", { class: "answers" },
      answer("Allow once", "yes", () => send("allowed-once")),
      question.canBeRemembered ? [
        answer("Allow these arguments for this session", "", () => send("allowed-once", "arguments")),
        answer(`Allow ${plain(question.toolName)} for this session`, "", () => send("allowed-once", "tool")),
      ] : null,
      h("span", { class: "reject" },
        h("label", { for: reasonId }, "Reason"), reason,
        answer("Reject", "no", () => send("rejected")))),
    problem);
  reason.addEventListener("keydown", (event) => {
    if (event.key === "Enter") send("rejected");
  });
  return card;
}
