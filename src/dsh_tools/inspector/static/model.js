// From rows of a log to items on a page. Items are changed in place and counted in `version`, so that
// the list draws only what changed.

const CODES = {
  ABORTED: "cancelled", ABORTED_BEFORE_DISPATCH: "cancelled", TOOL_TIMEOUT: "timed-out",
  TOOL_NOT_STARTED: "interrupted", TOOL_OUTCOME_UNKNOWN: "interrupted",
};

export class SessionModel {
  constructor() {
    this.rows = [];
    this.reset();
  }

  reset() {
    this.items = [];
    this.partial = null;
    this.calls = new Map();
    this.byId = new Map();
    this.asked = new Map();
    this.shown = 0;
    this.live = true;
  }

  /** Take rows in; they are shown at once unless an earlier moment is looked at. */
  add(rows) {
    const last = this.rows.length ? this.rows[this.rows.length - 1].seq : -1;
    for (const row of rows) if (row.seq > last) this.rows.push(row);
    if (this.live) this.showUpTo(this.rows.length);
  }

  /** Show the first `length` rows; going back draws anew. */
  showUpTo(length) {
    if (length < this.shown) {
      const { live } = this;
      const opened = new Map(this.items.filter((item) => item.ui).map((item) => [item.key, item.ui]));
      this.reset();
      this.live = live;
      this.opened = opened;
    }
    while (this.shown < length) this.fold(this.rows[this.shown++]);
  }

  fold(row) {
    const { type, data } = row;
    if (type === "turn/start") this.push({ kind: "turn", key: `t${row.seq}`, turn: data.turn, time: row.time });
    else if (type === "user/message") this.push({ kind: "user", key: `e${row.seq}`, content: data.content, source: data.source?.kind ?? "user", plugin: data.source?.plugin, time: row.time, callId: `event-${row.seq}` });
    else if (type === "assistant/message") this.answer(row);
    else if (type === "tool/call") this.call(row, data.callId, null);
    else if (type === "tool/code-dispatch-start") this.call(row, data.subCallId, this.byId.get(data.parentCallId) ?? this.byId.get(data.rootCallId));
    else if (type === "tool/result") this.settle(row, this.calls.get(row.call), data.message.content[0]);
    else if (type === "tool/code-dispatch") this.settle(row, this.byId.get(data.subCallId), data);
    else if (type === "tool/stages") this.stages(data);
    else if (type === "tool/record") this.record(data);
    else if (type.startsWith("approval/")) this.approval(row, type, data);
    else if (type === "model/retry") this.push({ kind: "note", key: `e${row.seq}`, text: `The model failed (${data.code}): ${data.message}. Asked again after ${(data.delayMs / 1000).toFixed(1)} s.`, tone: "warn" });
    else if (type === "turn/end") this.endTurn(row, data.reason);
    else if (type === "session/end-seed") this.push({ kind: "note", key: `e${row.seq}`, text: "What stands above was copied from another session." });
  }

  push(item) {
    item.version = 0;
    const ui = this.opened?.get(item.key);
    if (ui) item.ui = ui;
    this.items.push(item);
    return item;
  }

  answer(row) {
    this.dropPartial();
    const content = row.data.message.content.filter((block) => block.type !== "tool-call" && block.text);
    if (content.length) {
      this.push({ kind: "assistant", key: `e${row.seq}`, content, model: row.data.message.model, interrupted: row.data.message.interrupted, time: row.time });
    }
  }

  call(row, callId, parent) {
    const item = {
      kind: "call", key: `c${row.seq}`, seq: row.seq, callId, name: row.data.name, arguments: row.arguments,
      argumentsText: typeof row.data.arguments === "string" ? row.data.arguments : undefined,
      callView: row.view, state: "running", time: row.time, subs: [], root: parent?.root ?? parent ?? null, clipped: row.clipped,
    };
    this.calls.set(row.seq, item);
    this.byId.set(callId, item);
    if (parent) {
      item.version = 0;
      parent.subs.push(item);
      this.touch(item);
    } else this.push(item);
  }

  touch(item) {
    item.version += 1;
    if (item.root) item.root.version += 1;
  }

  settle(row, item, result) {
    if (!item) return;
    Object.assign(item, {
      resultView: row.view, content: result.content, isError: result.isError, code: row.data.error?.code,
      endTime: row.time, resultSeq: row.seq, progress: "", clipped: item.clipped || row.clipped,
    });
    item.state = this.outcome(item);
    this.touch(item);
  }

  outcome(item) {
    if (!item.isError) return "ok";
    if (item.code) return CODES[item.code] ?? "failed";
    return item.rejected || item.bodyRan === false ? "denied" : "failed";
  }

  stages(data) {
    const item = this.byId.get(data.callId);
    if (item) item.bodyRan = data.body !== undefined;
  }

  record(data) {
    const item = this.calls.get(data.call) ?? this.byId.get(data.callId);
    if (!item) return;
    item.record = data;
    item.bodyRan = data.ran !== undefined;
    this.touch(item);
  }

  approval(row, type, data) {
    if (type === "approval/policy") {
      this.push({ kind: "note", key: `e${row.seq}`, text: data.policy === "never" ? "Approvals were switched off." : "Approvals were switched on." });
    } else if (type === "approval/asked") {
      const item = this.byId.get(data.callId);
      this.asked.set(data.id, { item, data, time: row.time });
      if (item) {
        item.state = "asking";
        this.touch(item);
      }
    } else {
      const asked = this.asked.get(data.id);
      this.asked.delete(data.id);
      const item = asked?.item;
      if (!item) return;
      item.rejected = data.outcome !== "allowed-once";
      item.approval = `${data.outcome} after ${((row.time - asked.time) / 1000).toFixed(1)} s${data.reason ? `: ${data.reason}` : ""}`;
      if (item.state === "asking") item.state = "running";
      this.touch(item);
    }
  }

  endTurn(row, reason) {
    this.dropPartial();
    const texts = {
      aborted: "The turn was cancelled.", blocked: "A policy ended the turn.", "max-tokens": "The answer hit its length limit.",
      interrupted: "The process ended during the turn.", waiting: "The turn waits for a person.",
    };
    if (reason.kind === "error") this.push({ kind: "note", key: `e${row.seq}`, text: `The turn failed (${reason.code}): ${reason.message}`, tone: "bad" });
    else if (texts[reason.kind]) this.push({ kind: "note", key: `e${row.seq}`, text: texts[reason.kind], tone: "warn" });
  }

  // What streams, and is in no log yet.

  delta(kind, text) {
    if (!this.live) return;
    if (!this.partial) this.partial = this.push({ kind: "partial", key: `p${this.shown}`, text: "", reasoning: "" });
    this.partial[kind] += text;
    this.partial.version += 1;
  }

  dropPartial() {
    if (!this.partial) return;
    const at = this.items.lastIndexOf(this.partial);
    if (at >= 0) this.items.splice(at, 1);
    this.partial = null;
  }

  state(callId, state) {
    const item = this.byId.get(callId);
    if (!item || item.endTime || !this.live || state === "stopped") return;
    if (item.state === "asking" && state === "queued") return;
    item.state = state;
    this.touch(item);
  }

  progress(callId, text) {
    const item = this.byId.get(callId);
    if (!item || item.endTime || !this.live) return;
    item.progress = ((item.progress ?? "") + text).slice(-64000);
    this.touch(item);
  }
}
