"use strict";
// The page of the studio. Text from data becomes text nodes only; nothing is computed here but places on the chart.

const here = location.pathname.replace(/\/$/, "");
const $ = (id) => document.getElementById(id);
const steps = ["open", "plan", "explore", "understand", "issue", "check"];
const SERIES = { tree: "series-1", boosted: "series-2", calibrated: "series-3" };
const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "")}\u00a0%`;
const count = (n) => n.toLocaleString("en-US");
const up = (x) => (Math.ceil(x * 1e4 - 1e-9) / 1e4).toFixed(4);
const inPoints = (x) => `${Math.ceil(1e3 * x - 1e-9) / 10} percentage points`;
let state = {}, points = [], orders = {}, price = null, place = null, chosen = null, shownParts = null;

// -- small helpers --------------------------------------------------------------------------------------------------

const maker = (space) => (name, attributes = {}, ...children) => {
  const node = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const el = maker("http://www.w3.org/1999/xhtml"), svg = maker("http://www.w3.org/2000/svg");

function fill(node, ...children) { node.replaceChildren(...children.filter(Boolean)); return node; }
const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
// Messages of the library, without the options of the command line.
const plain = (text) => text.replace(/ \((pass )?--[^)]*\)| Name it: --\w+\./g, "").replace(/name it with --cluster ('[^']*'|\S+?)(?=\.)/, "choose it as the person");
const items = (texts) => texts.map((text) => el("li", {}, plain(text)));

function table(node, caption, headings, rows, look = { class: "number" }) {
  fill(node, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", { scope: "col", ...look }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text) => el("td", look, text))))));
}

function problem(text) {
  $("problem").hidden = !text;
  $("problem").textContent = plain(text || "");
  if (text) $("problem").scrollIntoView({ block: "nearest" });
}

const STOPPED = "The studio does not answer: it was stopped. Start `certifare studio` again and open the address that it prints. Projects and certificates are kept in its folder.";

async function ask(path, options = {}) {
  const answer = await fetch(here + path, options).catch(() => { throw new Error(STOPPED); });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  throw new Error(text.startsWith("{") ? JSON.parse(text).error : text);
}

const post = (path, body = {}) => ask(path, { method: "POST", body: JSON.stringify(body) });
const put = (path, file) => ask(`${path}${path.includes("?") ? "&" : "?"}name=${encodeURIComponent(file.name)}`, { method: "PUT", body: file });

async function attempt(work) {
  problem("");
  try { await work(); } catch (error) { problem(error.message); }
}

// -- steps ----------------------------------------------------------------------------------------------------------

function reachable(step) {
  if (step === "open") return true;
  if (!state.found?.ready) return false;
  if (step === "plan" || step === "explore") return true;
  if (step === "check") return issued() !== null;
  return Object.keys(orders).length > 0 || (state.issued || []).length > 0;
}

const issued = () => [...(state.issued || [])].reverse().find((result) => result.bound !== null) || null;

function show() {
  const asked = steps.includes(location.hash.slice(1)) ? location.hash.slice(1) : "open";
  const step = steps.slice(0, steps.indexOf(asked) + 1).filter(reachable).pop();
  for (const name of steps) $(name).hidden = name !== step;
  for (const link of document.querySelectorAll("#steps a")) {
    const name = link.hash.slice(1);
    name === step ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current");
    reachable(name) ? link.removeAttribute("aria-disabled") : link.setAttribute("aria-disabled", "true");
  }
  document.title = `${$(`${step}-title`).textContent} · certifare studio`;
  const begin = { plan: showPlan, explore: draw, understand: showUnderstand, issue: showIssue, check: showCheck }[step];
  if (begin) attempt(begin);
  return step === asked ? "" : !state.found?.ready ? "Open a table, with a label and groups, first." : asked === "check" ? "Issue a certificate first." : "Search for encoders first.";
}

addEventListener("hashchange", () => {
  problem("");
  const missing = show();
  scrollTo(0, 0);
  $("main").focus({ preventScroll: true });
  problem(missing);
});

// -- open -----------------------------------------------------------------------------------------------------------

function setState(found) {
  state = found;
  $("project").textContent = state.name || "";
  const others = (state.earlier || []).filter((other) => other.id !== state.id);
  $("earlier").hidden = !others.length;
  fill($("earlier").querySelector("ul"), ...others.map((other) => el("li", {},
    el("a", { href: `/projects/${encodeURIComponent(other.id)}` }, other.name), other.issued ? `, ${other.issued} issued` : "")));
  $("begin").hidden = Boolean(state.table);
  $("opened").hidden = !state.table;
  if (state.table) showTable();
}

function showTable() {
  const { columns, head, records, notes } = state.table;
  $("table-name").textContent = state.name;
  $("table-size").textContent = `${count(records)} records, ${count(columns.length)} columns`;
  table($("preview"), "First records", columns, head, {});
  fill($("table-notes"), ...items(notes));
  const { label, sensitive, cluster = [], drop } = state.roles, choose = "choose a column";
  for (const [id, value, none] of [["label", label[0], choose], ["sensitive", sensitive[0], choose], ["sensitive-2", sensitive[1], "nothing else"], ["cluster", cluster[0], "each row is one person"]]) {
    fill($(id), el("option", { value: "" }, none), ...columns.map((name) => el("option", { value: name }, name)));
    $(id).value = value || "";
  }
  fill($("drop"), ...columns.filter((name) => ![...label, ...sensitive, ...cluster].includes(name)).map((name) => {
    const box = el("input", { type: "checkbox", value: name });
    box.checked = drop.includes(name);
    box.addEventListener("change", sendRoles);
    return el("label", {}, box, ` ${name}`);
  }));
  const { found, problem: reason } = state;
  $("roles-problem").hidden = !reason;
  $("roles-problem").textContent = plain(reason || "");
  $("ready").hidden = !found?.ready;
  fill($("counts"), ...Object.entries(found ? { groups: found.groups, ...found.labels } : {}).map(([name, values]) => {
    const all = Object.values(values).reduce((sum, n) => sum + n, 0), shown = el("table");
    table(shown, name, ["", "records", "share"], Object.entries(values).map(([value, n]) => [value, count(n), percent(n / all)]));
    return shown;
  }));
  fill($("findings"), ...(found ? found.findings : []).map(({ severity, text, remedy }) =>
    el("li", { class: severity }, el("b", {}, { error: "To correct: ", warning: "Look at this: ", note: "" }[severity]), plain([text, remedy].filter(Boolean).join("; ")))));
  show();
}

async function sendRoles() {
  const dropped = [...$("drop").querySelectorAll("input:checked")].map((box) => box.value);
  const [label, sensitive, cluster] = [["label"], ["sensitive", "sensitive-2"], ["cluster"]].map((ids) => ids.map((id) => $(id).value).filter(Boolean));
  const roles = { label, sensitive, cluster, drop: dropped.filter((name) => ![...label, ...sensitive, ...cluster].includes(name)) };
  await attempt(async () => { const found = await post("/roles", roles); forget(); setState(found); });
}

function forget() { points = []; orders = {}; price = null; chosen = null; shownParts = null; $("frontier").hidden = true; fill($("explore-notes")); }

// -- plan -----------------------------------------------------------------------------------------------------------

function showPlan() {
  const { certification, least_bound: least, plans } = state.found;
  $("plan-records").textContent = `Of your records, 40 % will certify: ${Object.entries(certification).map(([name, n]) => `${count(n)} of ${name}`).join(", ")}.`;
  $("plan-least").textContent = least === null ? "" : `If cells do not read the group, T* is at least ${up(least)} (${inPoints(least)}); exploring shows how much more. If they may read it, T* depends on their number alone:`;
  table($("plan-table"), "The smallest T* that these records allow, if cells may read the group", ["cells", "T*", "selection rates differ by at most"],
    plans.map((row) => [row.cells, up(row.bound), inPoints(row.bound)]));
}

// -- explore --------------------------------------------------------------------------------------------------------

function listen() {
  const stream = new EventSource(`${here}/events`);
  stream.onmessage = (message) => heard(JSON.parse(message.data));
  stream.onerror = () => { if (stream.readyState === EventSource.CLOSED || state.running) problem(STOPPED); };
  stream.onopen = () => { if ($("problem").textContent === STOPPED) problem(""); };
}

let waiting = 0;
function drawSoon() { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; draw(); }); }

const stage = (work) => $(work === "issue" ? "issue-stage" : "stage");

function heard(event) {
  const { kind, work } = event;
  if (kind === "started") {
    if (work === "explore") { forget(); performance.mark("started"); }
    running(work);
    stage(work).textContent = "starting …";
  } else if (kind === "progress") {
    stage(state.running).textContent = `${event.stage} …`;
    $("cancel-issue").hidden ||= event.looking;
    $("progress").value = event.total ? event.done / event.total : 0;
  } else if (kind === "points") {
    if (!points.length) performance.measure("first point", "started");
    points.push(...event.points);
    drawSoon();
  } else if (kind === "order") {
    orders[event.family] = event.order;
    price = event.price;
    drawSoon();
  } else if (kind === "note") $("explore-notes").append(el("li", {}, event.text));
  else attempt(() => ended(kind, work, event.text));
}

function running(work) {
  state.running = work;
  $("start").hidden = $("certify").disabled = work !== null;
  $("start").textContent = points.length ? "Search again" : "Start the search";
  $("cancel").hidden = $("progress").hidden = work !== "explore";
  $("cancel-issue").hidden = work !== "issue";
}

async function ended(kind, work, text) {
  running(null);
  if (work === "issue") state = { ...await ask("/state"), choice: state.choice };
  stage(work).textContent = { finished: work === "explore" ? `${count(points.length)} encoders` : "", cancelled: "Cancelled.", failed: "" }[kind];
  show();
  if (kind === "failed") problem(text);
  else if (work === "issue") $("result").scrollIntoView();
}

function draw() {
  $("frontier").hidden = !points.length;
  if (!points.length) return;
  const best = Object.values(orders).flat().sort((a, b) => a.bound - b.bound);
  const reach = best.length ? Math.max(0.12, 1.15 * best.at(-1).bound) : 0.5;
  const right = Math.min(1, Math.max(0.05, Math.min(reach, 1.05 * Math.max(...points.map((p) => p.bound)))));
  const shown = points.filter((p) => p.bound <= right), heights = [...shown.map((p) => p.utility), ...(price === null ? [] : [price])];
  const low = Math.max(0, Math.min(...heights)), high = Math.max(...heights, low + 0.01), margin = 0.05 * (high - low);
  const across = (v) => v / right, down = (v) => (high + margin - v) / (high - low + 2 * margin);
  place = { x: (v) => `${(100 * across(v)).toFixed(2)}%`, y: (v) => `${(100 * down(v)).toFixed(2)}%`, right };
  const rule = (y, look) => svg("line", { x1: "0", x2: "100%", y1: place.y(y), y2: place.y(y), class: look });
  const upright = (x, look) => svg("line", { x1: place.x(x), x2: place.x(x), y1: "0", y2: "100%", class: look });
  const path = (d, look) => svg("path", { d, class: look });
  // All dots of a kind are one path, so that many of them are drawn as fast as few.
  const dots = (kind) => shown.filter((p) => p.kind === kind).map((p) => `M${1e3 * across(p.bound)} ${1e3 * down(p.utility)}h.01`).join("");
  const stairs = (order) => order.filter((p) => p.bound <= right).map((p, i) => `${i ? "H" : "M"}${1e3 * across(p.bound)}${i ? "V" : " "}${1e3 * down(p.utility)}`).join("");
  fill($("plane"),
    ...ticks(0, right, innerWidth < 600 ? 4 : 7).flatMap((v) => [upright(v, "grid"), svg("text", { x: place.x(v), y: "100%", dy: "1.4em", class: "muted middle" }, v.toFixed(2))]),
    ...ticks(low - margin, high + margin, 6).flatMap((v) => [rule(v, "grid"), svg("text", { x: "0", y: place.y(v), dx: "-8", dy: ".35em", class: "muted end" }, `${(100 * v).toFixed(0)} %`)]),
    price === null ? null : rule(price, "price"),
    svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", class: "stretched" },
      ...Object.entries(SERIES).map(([kind, look]) => path(dots(kind), `dots ${look}`)),
      ...Object.entries(orders).filter(([, order]) => order.length).map(([family, order]) => path(`${stairs(order)}H1000`, `line ${family === "aware" ? "series-3" : "series-2"}`))));
  $("target").max = Math.min(0.5, right).toFixed(3);
  if (document.activeElement !== $("target")) $("target").value = state.choice?.target ?? $("target").value;
  table($("best"), "Encoders that no other beats, by predicted T*", ["kind", "cells", "predicted T*", "information", "accuracy"],
    best.slice(0, 400).map((p) => [p.kind, p.cells, up(p.bound), percent(p.utility), percent(p.accuracy)]));
  for (const radio of document.querySelectorAll("input[name=family]")) radio.disabled = !orders[radio.value];
  mark();
}

function ticks(low, high, most) {
  const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((f) => f * power >= least * (1 - 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-12; i++) found.push(i * step);
  return found;
}

const family = () => document.querySelector("input[name=family]:checked").value;
const target = () => Number($("target").value);

// Move the chosen point, on a layer of its own: the best encoder whose predicted T* is within the target.
function mark() {
  const order = orders[family()] || [], at = place?.x(target());
  chosen = order.filter((p) => p.bound <= target()).pop() || null;
  $("target-text").textContent = inPoints(target());
  if (place) fill($("marker"), svg("line", { x1: at, x2: at, y1: "0", y2: "100%", class: "target" }),
    svg("text", { x: at, y: "0", dy: "-.6em", class: `warm ${target() > place.right / 2 ? "end" : "start"}` }, `target ${target().toFixed(3)}`),
    chosen && svg("circle", { cx: place.x(chosen.bound), cy: place.y(chosen.utility), r: "9", class: "ring" }));
  fill($("chosen"), ...(chosen ? [fact("encoder", chosen.kind), fact("cells", chosen.cells), fact("predicted T*", up(chosen.bound)), fact("accuracy", percent(chosen.accuracy)), fact("information", percent(chosen.utility)),
    price === null ? null : fact("price of the bound", `${(100 * Math.max(0, price - chosen.utility)).toFixed(1)} points`)]
    : [fact("encoder", order.length ? "none within this target" : "not known yet")]));
}

let saving = 0;
function choose() {
  mark();
  state.choice = { target: target(), aware: family() === "aware" };
  clearTimeout(saving);
  saving = setTimeout(() => post("/choice", state.choice).catch((error) => problem(error.message)), 250);
}

// -- understand -----------------------------------------------------------------------------------------------------

function frame(node, path) {
  node.hidden = false;
  node.onload = () => { const page = node.contentDocument; if (page) node.style.height = `${page.documentElement.scrollHeight + 24}px`; };
  node.src = here + path;
}

function showUnderstand() {
  mark();
  const last = issued(), tried = chosen && chosen.number !== null && family() === "blind";
  $("explanation").hidden = true;
  $("one-record").hidden = !tried && !last;
  const wanted = tried ? `/understand?number=${chosen.number}` : last ? "/files/report.html" : null;
  $("understand-what").textContent = tried
    ? `A ${chosen.kind} encoder with ${chosen.cells} cells, predicted T* ${up(chosen.bound)}. All figures below come from select records.`
    : last ? `The issued encoder: ${last.encoder.kind}, ${last.encoder.cells} cells.`
      : "Cells that read the group get their thresholds from the records that certify, so there is nothing to see before: issue the certificate, and its report appears here.";
  if (!wanted) $("parts").hidden = true;
  else if (wanted !== shownParts) { shownParts = wanted; frame($("parts"), wanted); }
}

async function explain() {
  const number = chosen && chosen.number !== null && family() === "blind" ? `&number=${chosen.number}` : "";
  const found = await ask(`/explain?record=${encodeURIComponent($("record").value)}${number}`);
  $("record").max = found.of;
  $("record-of").textContent = `of ${count(found.of)} select records`;
  $("explanation").hidden = false;
  $("explanation").textContent = found.text;
}

// -- issue ----------------------------------------------------------------------------------------------------------

async function showIssue() {
  mark();
  const last = [...state.issued].pop();
  $("issue-what").textContent = `Target: selection rates differ by at most ${inPoints(target())} (T* ≤ ${target().toFixed(3)}). ${family() === "aware" ? "Cells may read the group." : "Cells do not read the group."}`;
  $("command").textContent = (await post("/choice", { target: target(), aware: family() === "aware" })).command;
  $("again-line").hidden = state.again === null;
  if (state.again !== null) $("again-text").textContent = `Look again at the same records: all results then hold together with ${percent(state.again)} confidence`;
  $("result").hidden = !last;
  if (!last) return;
  const passed = last.bound !== null;
  fill($("result"), el("h2", {}, "Result ", el("strong", { class: `badge ${passed ? "good" : "bad"}` }, last.verdict)),
    ...(passed ? [el("p", { class: "result" }, last.words), el("dl", { class: "facts" }, fact("T*", up(last.bound)), fact("encoder", last.encoder.kind), fact("cells", last.encoder.cells), last.measured ? fact("accuracy", percent(last.measured.accuracy.estimate)) : "", fact("look", last.look ?? "not counted")),
      el("p", { class: "actions" }, el("a", { class: "button strong", href: "#check" }, "Check it"), ...[["bundle.zip", "Download the bundle"], ["encoded.csv", "Download the encoded table"], ["report.html", "Read the report"]].map(([name, text]) =>
        el("a", { class: "button", href: `${here}/files/${name}`, ...(name === "report.html" ? { target: "_blank", rel: "noopener" } : { download: name }) }, text))),
      el("h3", {}, "What it says"), el("p", {}, last.claim)] : []),
    el("ul", {}, ...items(passed ? last.follows : last.advice)), el("ul", { class: "notes" }, ...items(last.notes)));
}

async function certify() {
  await post("/issue", { target: target(), aware: family() === "aware", again: $("again").checked });
  $("again").checked = false;
}

// -- check ----------------------------------------------------------------------------------------------------------

function verdict(node, found) {
  fill(node, ...found.checks.map((check) => {
    const [mark, look] = check.ok === true ? ["✓", "good"] : check.ok === false ? ["✗", "bad"] : [check.undecided ? "?" : "–", "quiet"];
    return el("li", {}, el("b", { class: look, "aria-hidden": "true" }, mark), el("b", {}, check.name), el("span", {}, check.message));
  }), el("li", {}, el("span"), el("b", {}, "outcome"), el("strong", { class: found.outcome === "PASS" ? "good" : found.outcome === "FAIL" ? "bad" : "" }, found.outcome)));
}

async function showCheck() {
  const found = await ask("/check");
  $("check-claim").textContent = found.claim || "";
  verdict($("checks"), found);
  if (found.history) frame($("history"), "/files/history.html");
}

// -- begin ----------------------------------------------------------------------------------------------------------

async function reading(status, control, work) {
  $(status).textContent = "reading …";
  control.disabled = true;
  await attempt(work);
  control.disabled = false;
  $(status).textContent = "";
}

function chosenFile(input, status, work) {
  $(input).addEventListener("change", async () => { if ($(input).files.length) await reading(status, $(input), () => work($(input).files[0])); $(input).value = ""; });
}

chosenFile("file", "reading", async (file) => setState(await put("/table", file)));
chosenFile("fresh", "fresh-status", async (file) => verdict($("fresh-checks"), await put("/fresh", file)));
chosenFile("period-file", "period-status", async (file) => {
  await put(`/fresh?period=${encodeURIComponent($("period").value)}`, file);
  frame($("history"), "/files/history.html");
});
$("example").addEventListener("click", () => reading("reading", $("example"), async () => setState(await post("/example"))));
for (const [id, work] of Object.entries({ start: () => post("/explore"), cancel: () => post("/cancel"), "cancel-issue": () => post("/cancel"), explain, certify }))
  $(id).addEventListener("click", () => attempt(work));
for (const id of ["label", "sensitive", "sensitive-2", "cluster"]) $(id).addEventListener("change", sendRoles);
$("target").addEventListener("input", choose);
for (const radio of document.querySelectorAll("input[name=family]")) radio.addEventListener("change", choose);

attempt(async () => {
  setState(await ask("/state"));
  running(state.running);
  if (state.choice.aware) document.querySelector("input[name=family][value=aware]").checked = true;
  if (state.choice.target) { $("target").max = "0.5"; $("target").value = state.choice.target; }
  show();
  listen();
});
