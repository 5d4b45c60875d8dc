// The code of a login link is the part after the #, which browsers do not send to servers. This script moves it into the
// form and removes it from the address and the history. The person still presses the button.

const code = document.getElementById("code");
const found = location.hash.slice(1);

if (code && /^[A-Za-z0-9_-]{43}$/.test(found)) {
  code.value = found;
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("#login button")?.focus();
} else {
  code?.focus();
}
