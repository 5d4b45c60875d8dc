// The script of every page. Without JavaScript, everything essential still works: pages, links and forms.
import { startCountdowns } from "./countdown.js";
import { startConfirming } from "./confirm.js";
import { startCopying } from "./copying.js";
import { startKeys } from "./keys.js";
import { startListening } from "./live.js";
import { startThemeSwitch } from "./switch.js";

// The response to a form has an address that accepts only forms. A reload must show the page that the form was on.
const own = document.querySelector('meta[name="own-page"]')?.content;
if (own?.startsWith("/")) history.replaceState(history.state, "", own);
startThemeSwitch();
// On a phone the sections are a row that scrolls. The current section must be visible.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
startCountdowns();
startConfirming();
startCopying();
startKeys();
startListening();
