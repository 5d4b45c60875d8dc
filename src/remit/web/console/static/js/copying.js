// Buttons that copy the text beside them.
export function startCopying() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copies]")) {
    const source = document.getElementById(button.dataset.copies);
    if (!source) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        // Direction marks belong to the page and are not copied.
        await navigator.clipboard.writeText(source.textContent.replace(/[\u2068\u2069]/g, ""));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy it by hand";
      }
    });
  }
}
