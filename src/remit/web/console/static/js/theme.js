// Sets the stored theme before the page is drawn. A classic script, because modules run too late.
try {
  const chosen = localStorage.getItem("remit-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* storage may be forbidden; the system's setting stays */ }
