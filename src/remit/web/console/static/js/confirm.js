// A decision is sent only after a confirmation: <button data-confirm="..."> opens a dialog that says what will happen.
function make(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function ask(button) {
  const dialog = document.createElement("dialog");
  const body = make("div", "", "pad");
  const title = make("h2", button.dataset.confirm);
  title.id = "confirm-title";
  dialog.setAttribute("aria-labelledby", title.id);
  body.append(title);
  if (button.dataset.detail) body.append(make("p", button.dataset.detail));
  const reason = button.form.elements.namedItem("reason");
  if (reason && reason.value) body.append(make("p", `Reason: ${reason.value}`, "quiet"));
  const row = make("div", "", "row");
  const yes = make("button", button.dataset.yes || button.textContent.trim(), button.className || "yes");
  const no = make("button", "Back");
  yes.type = no.type = "button";
  row.append(yes, no);
  body.append(row);
  dialog.append(body);
  document.body.append(dialog);
  dialog.addEventListener("close", () => { dialog.remove(); button.focus(); });
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", () => {
    const word = document.createElement("input"); // without this field the server asks for the confirmation on a page
    word.type = "hidden";
    word.name = "confirmed";
    word.value = "yes";
    button.form.append(word);
    button.dataset.confirmed = "yes";
    yes.disabled = true;
    button.form.requestSubmit(button);
    dialog.close();
  });
  dialog.showModal();
  yes.focus();
}

export function startConfirming() {
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || !button.dataset.confirm || button.dataset.confirmed) return;
    event.preventDefault();
    ask(button);
  });
}
