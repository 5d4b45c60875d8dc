// What happens elsewhere shows up here. An event's own words only ever become text; what the page shows anew is the
// same page, asked for again and rendered by the server, of which the parts marked data-region are put in place.
import { tick } from "./countdown.js";

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

// A form with a digest says yes to what stands beside it on this very page, and to nothing else. So it is never put in
// place anew: if what it is about has changed, that is told, and whoever wants to say yes has to load the page again.
const DIGEST = "input[name=digest]";

function keepBound(region, fresh) {
  const shown = region.querySelector(DIGEST);
  const now = fresh.querySelector(DIGEST);
  if (!shown || (!now && !isInUse(region))) return false; // closed meanwhile: there is nothing to say yes to
  const note = region.querySelector("[data-stale]");
  if (now?.value !== shown.value || fresh.querySelector("button[value=approve]")?.disabled) {
    for (const button of region.querySelectorAll("button[value=approve]")) button.disabled = true;
    if (note?.hidden) announce(note.textContent);
  }
  note?.removeAttribute("hidden");
  return true;
}

// Nothing is moved away from under a finger, or from behind a dialog.
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
  tick(fresh); // so that seconds which went by are no difference
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
  // The browser parses it as a page, without running anything in it: no text of ours ever becomes markup here.
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

// While something runs, how far it is is nowhere in the record: it is asked for.
function poll() {
  if (document.querySelector("[data-running]") && !document.hidden) schedule(AT_MOST);
}

function said(data) {
  let told;
  try { told = JSON.parse(data); } catch { return; }
  const kind = String(told.kind ?? "");
  if (kind === "desk.lagged" || [...document.querySelectorAll("[data-on]")].some((region) => matches(region, kind))) {
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

// Each kind of event has a name of its own, and EventSource hears only names that it was told before: so the stream is
// read here, event by event. What a line means is said in the standard of server-sent events.
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
      if (lines.includes("event: desk.closed")) throw new Over();
      place.id = lines.find((line) => line.startsWith("id: "))?.slice(4) ?? place.id;
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) said(data);
    }
  }
}

// The session that this page was opened by: whatever is answered here from now on counts for nothing.
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
      tell("Your session is over: log in again", false);
      announce("Your session is over. Nothing that you do on this page counts any more: log in again.");
      return;
    }
    tell("Not connected", false);
    if (Date.now() - began > LONGEST_PAUSE) pause = 1000;
    await new Promise((go) => setTimeout(go, pause));
    schedule(); // what happened meanwhile
  }
}
