// Countdowns, updated every second. The server renders the same words once, for browsers without JavaScript.
const SOON = 60;

export function inWords(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  const two = (unit, name, rest, restName) => {
    const left = Math.floor((whole % unit) / rest);
    return `${Math.floor(whole / unit)} ${name}${left ? ` ${left} ${restName}` : ""}`;
  };
  if (whole >= 86400) return two(86400, "d", 3600, "h");
  if (whole >= 3600) return two(3600, "h", 60, "min");
  if (whole >= 60) return two(60, "min", 1, "s");
  return `${whole} s`;
}

// The clocks of the server and of this machine may differ. The server's clock decides, as it was when the page was sent.
const said = Date.parse(document.querySelector("meta[name=now]")?.content ?? "");
const ahead = Number.isNaN(said) ? 0 : said - Date.now();

export function tick(root = document) {
  for (const each of root.querySelectorAll("time[data-until]")) {
    const left = (Date.parse(each.dataset.until) - Date.now() - ahead) / 1000;
    const words = left > 0 ? `${inWords(left)} left` : "expired";
    if (each.textContent !== words) each.textContent = words;
    each.classList.toggle("soon", left < SOON);
  }
}

export function startCountdowns() {
  tick();
  setInterval(() => tick(), 1000);
}
