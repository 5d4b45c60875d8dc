// The button that switches between light and dark, and stores the choice.
const darkBySystem = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : darkBySystem.matches;
}

export function startThemeSwitch() {
  const button = document.getElementById("theme");
  if (!button) return;
  const tell = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("remit-theme", next); } catch { /* without storage it lasts for this page */ }
    tell();
  });
  darkBySystem.addEventListener("change", tell);
  tell();
}
