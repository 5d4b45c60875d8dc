// Before anything is drawn: the theme that was chosen here, if one was. A classic script, since modules come too late.
try {
  const chosen = localStorage.getItem("remit-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* storage may be forbidden; the system's own choice stays */ }
