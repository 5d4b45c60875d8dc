// Updates the page when something happens on the server. Words of an event only become text. To update, the script
// loads the same page again, rendered by the server, and replaces the parts marked data-region.
import { tick } from "./countdown.js";

const LAGGED = `desk.lagged`; // names in the event stream
const CLOSED = `event: desk.closed`;
const QUIET = 400;
const AT_MOST = 1500;
let waiting = 0;
let last = 0;
let busy = false;

function announce(text) {
  const place = document.getElementById("announce");
  if (place) place.textContent = text;
}

function matches(region, kind) {
  return region.dataset.on.split(" ").some((prefix) => kind.startsWith(prefix));
}

function isInUse(region) {
  const focused = document.activeElement;
  if (focused && region.contains(focused) && focused.closest("form")) return true;
  return [...region.querySelectorAll("textarea, input[type=text], input:not([type])")].some((each) => each.value !== each.defaultValue)
    || [...region.querySelectorAll("input[type=checkbox]")].some((each) => each.checked !== each.defaultChecked);
}

// A form with a digest approves exactly what this page shows beside it. So the form is never replaced. If its subject
// has changed, the page says so, and the approver has to load the page again.
const DIGEST = "input[name=digest]";

function keepBound(region, fresh) {
  const shown = region.querySelector(DIGEST);
  const now = fresh.querySelector(DIGEST);
  if (!shown || (!now && !isInUse(region))) return false; // closed meanwhile: there is nothing to approve
  const note = region.querySelector("[data-stale]");
  if (now?.value !== shown.value || fresh.querySelector("button[value=approve]")?.disabled) {
    for (const button of region.querySelectorAll("button[value=approve]")) button.disabled = true;
    if (note?.hidden) announce(note.textContent);
  }
  note?.removeAttribute("hidden");
  return true;
}

// Nothing moves while a pointer is pressed or a dialog is open.
let pressed = false;
addEventListener("pointerdown", () => { pressed = true; }, true);
addEventListener("pointerup", () => setTimeout(() => { pressed = false; }, 50), true);
addEventListener("pointercancel", () => { pressed = false; }, true);

function put(fresh) {
  if (pressed || document.querySelector("dialog[open]")) {
    schedule();
    return false;
  }
  let changed = false;
  tick();
  tick(fresh); // so that elapsed seconds are no difference
  for (const region of document.querySelectorAll("[data-region]")) {
    const other = fresh.querySelector(`[data-region="${CSS.escape(region.dataset.region)}"]`);
    if (!other || region.isEqualNode(other) || keepBound(region, other)) continue;
    if (isInUse(region)) {
      region.querySelector("[data-stale]")?.removeAttribute("hidden");
      continue;
    }
    const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const adopted = document.importNode(other, true);
    region.replaceWith(adopted);
    if (focused) adopted.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    changed ||= adopted.dataset.told !== undefined;
  }
  const count = fresh.getElementById("open-count");
  const mine = document.getElementById("open-count");
  if (count && mine) {
    mine.replaceChildren(...[...count.childNodes].map((each) => document.importNode(each, true)));
    mine.hidden = count.hidden;
  }
  return changed;
}

function refresh() {
  waiting = 0;
  if (busy) { schedule(AT_MOST); return; }
  busy = true;
  last = Date.now();
  // The browser parses the response as a page and runs nothing in it. No text becomes markup here.
  const asked = new XMLHttpRequest();
  asked.open("GET", location.pathname + location.search);
  asked.responseType = "document";
  asked.addEventListener("loadend", () => {
    busy = false;
    if (asked.status === 200 && asked.responseXML && put(asked.responseXML)) announce("The page was updated.");
    poll();
  });
  asked.send();
}

function schedule(delay = QUIET) {
  if (!waiting) waiting = setTimeout(refresh, Math.max(delay, last + AT_MOST - Date.now()));
}

// The progress of a running plan is not in the ledger, so the page asks for it.
function poll() {
  if (document.querySelector("[data-running]") && !document.hidden) schedule(AT_MOST);
}

function said(data) {
  let told;
  try { told = JSON.parse(data); } catch { return; }
  const kind = String(told.kind ?? "");
  if (kind === LAGGED || [...document.querySelectorAll("[data-on]")].some((region) => matches(region, kind))) {
    schedule();
  }
}

function tell(text, live) {
  const state = document.getElementById("live");
  if (!state) return;
  state.textContent = text;
  state.hidden = false;
  state.classList.toggle("live", live);
}

// Each kind of event has its own name, and EventSource delivers only names that were registered before. So this
// function reads the stream itself, event by event, by the standard of server-sent events.
async function listen(place) {
  const headers = { Accept: "text/event-stream", ...(place.id ? { "Last-Event-ID": place.id } : {}) };
  const answer = await fetch("/v1/events", { headers, signal: place.signal, cache: "no-store" });
  if (answer.status === 401) throw new Over();
  if (!answer.ok || !answer.body) throw new Error(String(answer.status));
  tell("Live", true);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      if (lines.includes(CLOSED)) throw new Over();
      place.id = lines.find((line) => line.startsWith("id: "))?.slice(4) ?? place.id;
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) said(data);
    }
  }
}

// The session of this page has ended. Nothing that is sent from this page is accepted any more.
class Over extends Error {}

const LONGEST_PAUSE = 30000;

export async function startListening() {
  if (!document.querySelector("[data-on]")) return;
  poll();
  const leaving = new AbortController();
  addEventListener("pagehide", () => leaving.abort());
  const place = { id: "", signal: leaving.signal };
  for (let pause = 1000; !leaving.signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
    const began = Date.now();
    let over = false;
    try { await listen(place); } catch (problem) { over = problem instanceof Over; }
    if (leaving.signal.aborted) return;
    if (over) {
      tell("Your session has ended: log in again", false);
      announce("Your session has ended. This page can no longer send anything. Log in again.");
      return;
    }
    tell("Not connected", false);
    if (Date.now() - began > LONGEST_PAUSE) pause = 1000;
    await new Promise((go) => setTimeout(go, pause));
    schedule(); // load what happened meanwhile
  }
}
