// The page: sends requests to the REST interface with a token and shows the answers. The token comes from "#token=" of
// a link, which is never sent to a server, or from the form; it stays in this tab's sessionStorage.
"use strict";

const SESSIONS_EVERY_MS = 10000;
const RECORDS_AT_ONCE = 10000;
const MOST_EXPORTED = 100000;
const byId = (id) => document.getElementById(id);
const state = {token: "", me: null, usage: [], timer: 0};

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  state.token = sessionStorage.getItem("token") || "";
}

class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function ask(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  const answer = await fetch(path + (query.size || String(query) ? "?" + query : ""),
    {headers: {Authorization: "Bearer " + state.token}, cache: "no-store"});
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refusal(answer.status, problem.detail || problem.title || "error " + answer.status);
  }
  return answer;
}
const askJson = async (path, parameters) => (await ask(path, parameters)).json();

function say(text) {
  byId("message").textContent = text;
}

function show(id, ...trees) {
  byId(id).replaceChildren(...trees.map((tree) => render(tree)));
}

// Charts are as wide as their place, so that their text is not scaled down.
const chartWidth = () => Math.max(280, Math.min(960, byId("main").clientWidth || 960));
const isSelf = () => state.me.scope === "self";
const hasMoney = () => state.me.scope !== "read";
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
// In the time zone of the browser.
const dayOf = (date) => new Intl.DateTimeFormat("en-CA", {timeZone: zone, year: "numeric", month: "2-digit",
  day: "2-digit"}).format(date);

// First and last day that are shown.
function span() {
  const choice = byId("period").value;
  const today = dayOf(new Date());
  if (choice === "month") {
    return [today.slice(0, 8) + "01", today];
  }
  if (choice === "before") {
    const last = new Date(today.slice(0, 8) + "01T12:00:00Z");
    last.setUTCDate(0);
    const text = last.toISOString().slice(0, 10);
    return [text.slice(0, 8) + "01", text];
  }
  const first = new Date(today + "T12:00:00Z");
  first.setUTCDate(first.getUTCDate() - Number(choice) + 1);
  return [first.toISOString().slice(0, 10), today];
}

function shownSpan() {
  const [first, last] = span();
  const end = new Date(last + "T12:00:00Z");
  end.setUTCDate(end.getUTCDate() + 1);
  return {from: first, to: end.toISOString().slice(0, 10), zone, user: isSelf() ? "" : byId("user").value};
}

const MONEY_COLUMNS = [["charged", "gross_ud"], ["discount", "discount_ud"], ["to pay", "net_ud"]];

function usageTable(caption, key, rows, nameOf, moneyColumns = MONEY_COLUMNS) {
  const columns = [{head: key, text: true}, {head: "up"}, {head: "down"}, {head: "saved"}, {head: "saved %"}];
  return table(caption, hasMoney() ? [...columns, ...moneyColumns.map(([head]) => ({head}))] : columns,
    rows.map((row) => [nameOf(row), bytes(row.payload_up), bytes(row.payload_down), bytes(row.saved),
      percent(row.saved, row.pre), ...(hasMoney() ? moneyColumns.map(([, name]) => money(row[name])) : [])]));
}

function showSums(rows, balance, quota) {
  const sums = [
    ["Payload", bytes((sum(rows, "payload_up") ?? 0n) + (sum(rows, "payload_down") ?? 0n))],
    ["Saved", bytes(sum(rows, "saved") ?? 0n) + " (" + percent(sum(rows, "saved") ?? 0n, sum(rows, "pre") ?? 0n) + ")"],
  ];
  if (hasMoney()) {
    sums.push(["Charged, denarii", money(sum(rows, "gross_ud"))], ["Discount", money(sum(rows, "discount_ud"))],
      ["To pay", money(sum(rows, "net_ud"))]);
  }
  if (balance !== null) {
    sums.push(["Balance, denarii", money(balance)]);
  }
  if (quota !== null && quota.quota_bytes !== null) {
    sums.push(["Quota", bytes(quota.used_bytes) + " of " + bytes(quota.quota_bytes) + " used, until " + timeText(Number(quota.until))]);
  }
  show("sums", ...sums.map(([name, text]) => ["div", {}, [["dt", {}, [name]], ["dd", {}, [text]]]]));
}

function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    groups.set(row[key], [...(groups.get(row[key]) || []), row]);
  }
  return [...groups].map(([name, members]) => {
    const all = {[key]: name};
    for (const field of ["payload_up", "payload_down", "pre", "saved", "gross_ud", "discount_ud", "net_ud"]) {
      all[field] = sum(members, field);
    }
    return all;
  });
}

function showUsage(rows, users) {
  const [first, last] = span();
  const days = daysBetween(first, last);
  if (rows.length === 0) {
    show("days", ["p", {}, ["Nothing was used in this time."]]);
    show("classes");
  } else {
    show("days", dayChart(rows, days, chartWidth()), legend(), asTable(usageTable("Usage by day", "day", grouped(rows, "day"), (row) => row.day)));
    const classes = grouped(rows, "class");
    show("classes", barChart(classes.map((row) => ({name: CLASS_NAMES[row.class] || row.class, value: payload(row),
      kind: row.class, note: bytes(payload(row)) + ", saved " + percent(row.saved, row.pre)})), "Payload by class", chartWidth()),
    asTable(usageTable("Usage by class", "class", classes, (row) => CLASS_NAMES[row.class] || row.class)));
  }
  byId("users-part").hidden = isSelf();
  if (!isSelf()) {
    const most = [...users].sort((one, other) => payload(other) - payload(one));
    const kept = most.slice(0, 20).map((row) => ({name: row.user, value: payload(row), kind: "other",
      note: bytes(payload(row))}));
    show("users", ...(kept.length > 0
      ? [barChart(kept, "Payload of the users with most", chartWidth()), asTable(usageTable("Usage by user", "user", most,
        (row) => row.user + (row.removed ? " (removed)" : ""), [...MONEY_COLUMNS, ["balance", "balance_ud"]]))]
      : [["p", {}, ["Nobody used anything in this time."]]]));
  }
}

const timeText = (seconds) => new Date(seconds * 1000).toLocaleString([], {dateStyle: "short", timeStyle: "short"});

function showSessions(sessions) {
  const columns = [...(isSelf() ? [] : [{head: "user", text: true}]), {head: "node", text: true}, {head: "from", text: true},
    {head: "by", text: true}, {head: "round trip"}, {head: "handovers"}, {head: "up"}, {head: "down"}, {head: "saved"},
    {head: "since", text: true}, {head: "quota", text: true}];
  const rows = sessions.map((one) => [...(isSelf() ? [] : [one.user]), one.node, one.from ?? "–", one.transport,
    one.rtt_ms === null ? "–" : one.rtt_ms.toFixed(0) + " ms", String(one.handovers), bytes(one.up_bytes),
    bytes(one.down_bytes), one.saved_percent === null ? "–" : one.saved_percent.toFixed(1) + " %",
    timeText(Number(one.since)), allowanceText(one.allowance, timeText)]);
  const before = byId("sessions").firstElementChild;
  const hadFocus = before !== null && before === document.activeElement;
  const scrolled = before === null ? 0 : before.scrollLeft;
  show("sessions", rows.length === 0 ? ["p", {}, ["No node is connected."]] : table("Sessions now", columns, rows));
  const now = byId("sessions").firstElementChild;
  now.scrollLeft = scrolled;
  if (hadFocus) {
    now.focus({preventScroll: true});
  }
}

// An answer about the user, if one is chosen.
async function askOfUser(user, what) {
  if (!user) {
    return null;
  }
  try {
    return await askJson("v1/users/" + encodeURIComponent(user) + "/" + what);
  } catch (refusal) {
    if (refusal.status === 404) {
      return null;  // of a user that was removed
    }
    throw refusal;
  }
}

// The page is shown without it, too.
async function askQuota(user) {
  try {
    return await askOfUser(user, "quota");
  } catch (refusal) {
    if (refusal instanceof Refusal) {
      return null;
    }
    throw refusal;
  }
}

async function refresh() {
  say("Loading…");
  const asked = shownSpan();
  const user = isSelf() ? state.me.user : asked.user;
  const [usage, users, sessions, account] = await Promise.all([
    askJson("v1/usage", {...asked, by: "day,class"}),
    isSelf() ? {rows: []} : askJson("v1/usage", {...asked, by: "user"}),
    askJson("v1/sessions"), hasMoney() ? askOfUser(user, "balance") : null]);
  const quota = await askQuota(user);  // a token may ask four things at once
  state.usage = usage.rows;
  showSums(usage.rows, account && account.balance_ud, quota);
  showUsage(usage.rows, users.rows);
  showSessions(sessions);
  byId("export-statement").hidden = !hasMoney() || !(isSelf() || asked.user);
  say("As of " + new Date().toLocaleTimeString() + ", days in " + zone + ".");
}

async function refreshSessions() {
  if (!document.hidden) {
    showSessions(await askJson("v1/sessions"));
  }
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function exportUsage() {
  const head = ["day", "class", "payload_up", "payload_down", "pre", "post", "saved", "gross_ud", "discount_ud", "net_ud"];
  save("usage.csv", "text/csv", csv(head, state.usage.map((row) => head.map((name) => row[name]))));
}

// Reads the answer page by page, MOST_EXPORTED records at most: the file is made in the browser's memory.
async function exportRecords() {
  const asked = shownSpan();
  const lines = [];
  let head = null;
  let count = 0;
  let after = "";
  do {
    say("Loading records… " + count);
    const page = await askJson("v1/records", {...asked, after, limit: RECORDS_AT_ONCE});
    head = head ?? Object.keys(page.records[0] ?? {snapt_id: ""});
    const text = csv(head, page.records.map((record) => head.map((name) => record[name])));
    lines.push(count === 0 ? text : text.slice(text.indexOf("\n") + 1));
    count += page.records.length;
    after = page.next;
  } while (after && count < MOST_EXPORTED);
  save("records.csv", "text/csv", lines.join(""));
  say(after ? "The first " + count + " records only. Choose a shorter period or a user, or use `snapt export` for all."
    : count + " records.");
}

async function exportStatement() {
  const user = isSelf() ? state.me.user : byId("user").value;
  const month = span()[1].slice(0, 7);
  const answer = await ask("v1/users/" + encodeURIComponent(user) + "/statement", {month, format: "html"});
  save("statement-" + user + "-" + month + ".html", "text/html", await answer.text());
}

// Shows errors; without a valid token it shows the form again.
function guarded(work) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await work();
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        leave("This token is not, or no longer, valid.");
      } else {
        say(error instanceof Refusal ? error.message : "The SNAPT cannot be reached.");
      }
    }
  };
}

function leave(text) {
  clearInterval(state.timer);
  sessionStorage.removeItem("token");
  state.token = "";
  byId("main").hidden = true;
  byId("leave").hidden = true;
  byId("login").hidden = false;
  byId("who").textContent = "";
  say(text);
  byId("token").focus();
}

async function enter() {
  state.me = await askJson("v1/me");
  byId("who").textContent = isSelf() ? state.me.user + ", at " + state.me.snapt : state.me.snapt + ", as " + state.me.token;
  document.title = "Usage" + (isSelf() ? " of " + state.me.user : "") + " – " + state.me.snapt;
  const isLogin = !byId("login").hidden;
  byId("login").hidden = true;
  byId("main").hidden = false;
  if (isLogin) {
    byId("main").focus();  // the form is gone
  }
  byId("leave").hidden = false;
  byId("user-choice").hidden = isSelf();
  if (!isSelf()) {
    const users = (await askJson("v1/usage", {by: "user"})).rows.filter((row) => !row.removed);
    byId("user").replaceChildren(...["", ...users.map((row) => row.user)].map((name) =>
      render(["option", {value: name}, [name || "all users"]])));
  }
  await refresh();
  clearInterval(state.timer);
  state.timer = setInterval(guarded(refreshSessions), SESSIONS_EVERY_MS);
}

function begin() {
  byId("login").addEventListener("submit", guarded(async () => {
    state.token = byId("token").value.trim();
    sessionStorage.setItem("token", state.token);
    byId("token").value = "";
    await enter();
  }));
  byId("choice").addEventListener("submit", guarded(refresh));
  byId("period").addEventListener("change", guarded(refresh));
  byId("user").addEventListener("change", guarded(refresh));
  byId("leave").addEventListener("click", () => leave("The token is forgotten."));
  byId("export-usage").addEventListener("click", exportUsage);
  byId("export-records").addEventListener("click", guarded(exportRecords));
  byId("export-statement").addEventListener("click", guarded(exportStatement));
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) {
      location.reload();  // not for the link to the figures
    }
  });
  takeToken();
  if (state.token) {
    guarded(enter)();
  } else {
    byId("login").hidden = false;
    byId("token").focus();
  }
}

begin();
