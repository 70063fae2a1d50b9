// What the record of a call says beside its card: who was asked about it and what each said, what ran, how it stopped.
import { duration, h, moment, plain } from "./dom.js";

const CAUSES = { limit: "its time limit", caller: "its caller", cancelled: "a cancellation" };
const ENDINGS = {
  cancelled: "it was cancelled", raised: "it ended in an error", returned: "it went on to its end", killed: "its process was killed",
};

/** The facts in a record, as pairs for a list of terms. */
export function recordFacts(record) {
  if (!record) return [];
  const { ran, measured } = record;
  const facts = (record.approvals ?? []).map((approval, at) => {
    const [, , when] = measured.questions?.[at] ?? [];
    const by = approval.by ? ` by ${plain(approval.by)}` : "";
    return fact("Answered", `${approval.outcome}${by}${when ? ` at ${moment(when)}` : ""}, for ${short(approval.argumentsDigest)}`);
  });
  facts.push(fact("Digest", record.argumentsDigest && short(record.argumentsDigest), record.argumentsDigest));
  facts.push(fact("Rules", record.policyDigest && short(record.policyDigest), record.policyDigest));
  if (ran) facts.push(fact("Ran", `${plain(ran.tool)}${ran.owner ? ` of ${plain(ran.owner)}` : ""}, ${ran.isolation}${ran.attempts > 1 ? `, ${ran.attempts} times` : ""}`));
  else facts.push(fact("Ran", "nothing"));
  const stop = record.stopped;
  if (stop) facts.push(fact("Stopped", `by ${CAUSES[stop.cause] ?? stop.cause}; ${ENDINGS[stop.ending] ?? stop.ending}${measured.stopSeconds !== undefined ? ` after ${duration(measured.stopSeconds * 1000)}` : ""}`));
  return facts;
}

/** Everybody who was asked about the call, in order. */
export function verdictTable(record) {
  if (!record?.consulted?.length) return [];
  const rows = record.consulted.map((asked, at) =>
    h("tr", { class: `said-${asked.verdict}` },
      h("td", {}, asked.kind), h("td", { class: "who-said" }, h("bdi", {}, plain(asked.name))),
      h("td", {}, asked.verdict), h("td", { class: "took" }, duration(record.measured.consultedMs?.[at])),
      h("td", {}, asked.reason ? h("bdi", {}, plain(asked.reason)) : "")));
  const heads = ["Asked", "Who", "Verdict", "Took", "Reason"].map((text) => h("th", { scope: "col" }, text));
  return [h("p", { class: "label" }, "Who was asked"), h("div", { class: "verdicts" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)))];
}

function fact(term, text, title) {
  return text ? [h("dt", {}, term), h("dd", { title }, text)] : [];
}

function short(digest) {
  return (digest ?? "nothing").slice(0, 12);
}
