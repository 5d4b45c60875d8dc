// Keyboard shortcuts: j and k, a and d, ? for help. Off while a person types, and a person can turn them off.
const OFF = "remit-keys-off";

function areOff() {
  try { return localStorage.getItem(OFF) === "yes"; } catch { return false; }
}

function isTyping(target) {
  return target instanceof Element && target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function step(by) {
  const links = [...document.querySelectorAll("[data-walk] a[data-item]")];
  if (!links.length) {
    document.querySelector(by > 0 ? "a[rel=next]" : "a[rel=prev]")?.click();
    return;
  }
  const now = links.indexOf(document.activeElement);
  const next = now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(now + by, 0), links.length - 1);
  links[next].focus();
}

function press(name) {
  const button = document.querySelector(`button[data-key="${name}"]`);
  if (button && !button.disabled) button.form.requestSubmit(button);
}

function help() {
  const dialog = document.getElementById("keys-help");
  if (dialog && !dialog.open) dialog.showModal();
}

const ACTIONS = { j: () => step(1), k: () => step(-1), a: () => press("a"), d: () => press("d"), "?": help };

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]") || (areOff() && event.key !== "?")) return;
    const action = Object.hasOwn(ACTIONS, event.key) ? ACTIONS[event.key] : null;
    if (!action) return;
    event.preventDefault();
    action();
  });
  const opener = document.getElementById("keys-open");
  if (opener) {
    opener.hidden = false;
    opener.addEventListener("click", help);
  }
  const box = document.getElementById("keys-off");
  if (box) {
    box.checked = areOff();
    box.addEventListener("change", () => {
      try { localStorage.setItem(OFF, box.checked ? "yes" : "no"); } catch { /* without storage it lasts for this page */ }
    });
  }
  document.getElementById("keys-close")?.addEventListener("click", () => document.getElementById("keys-help").close());
}
