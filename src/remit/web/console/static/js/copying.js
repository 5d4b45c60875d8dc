// Buttons that copy what stands beside them.
export function startCopying() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copies]")) {
    const source = document.getElementById(button.dataset.copies);
    if (!source) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy it by hand";
      }
    });
  }
}
