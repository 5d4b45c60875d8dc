// The code of a login link stands behind the #, where no server sees it. It goes into the form and out of the address,
// and so out of the history; sending it stays a person's step.

const code = document.getElementById("code");
const found = location.hash.slice(1);

if (code && /^[A-Za-z0-9_-]{43}$/.test(found)) {
  code.value = found;
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("#login button")?.focus();
} else {
  code?.focus();
}
