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
    this.others = new Map();
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
        ? "Nothing waits for an answer." : "This page looks at an export; questions are answered where its store is."));
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
    const ids = new Set(open.map((question) => question.id));
    for (const [id, card] of this.others) {
      if (ids.has(id)) continue;
      card.remove();
      this.others.delete(id);
    }
    if (!open.length) {
      this.elsewhere.replaceChildren();
      return;
    }
    if (!this.elsewhere.children.length) {
      this.elsewhere.append(
        h("h2", {}, "Open in stored sessions"),
        h("p", { class: "dim" }, "These were asked by a process that still runs, or that ended without a word. While it runs, answer where it asks."));
    }
    for (const question of open) {
      if (this.others.has(question.id)) continue;
      const card = questionCard(question);
      card.classList.add("old");
      this.others.set(question.id, card);
      this.elsewhere.append(card);
    }
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
      else if (answer.turn === "goes-on") toast("The turn goes on", "ok");
      else if (answer.turn === "kept") toast("The answer is kept in the session", "ok");
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
    howItGoesOn(question),
    !question.answerable ? null : h("div", { class: "answers" },
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

/** What an answer does for a turn that is not held up by its question but waits, or was broken off. */
function howItGoesOn(question) {
  if (question.goesOn === undefined) return null;
  if (question.goesOn && question.waiting) return h("p", { class: "note" }, "Its turn waits, and nothing of it runs. With the answer it goes on here.");
  if (question.goesOn) return h("p", { class: "note" }, "If the process that asked is gone, its turn goes on here with the answer.");
  const how = [question.goOnWith.startsWith("dsh-tools ") ? h("code", {}, plain(question.goOnWith)) : plain(question.goOnWith)];
  if (!question.answerable) return h("p", { class: "note" }, "It can't be answered from here. It goes on so: ", how);
  return h("p", { class: "note" }, "Its turn waits. The answer is kept in the session, and the turn goes on so: ", how);
}
