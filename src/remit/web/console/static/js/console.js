// What every page does with JavaScript. Without it, everything essential works too: pages, links and forms.
import { startCountdowns } from "./countdown.js";
import { startConfirming } from "./confirm.js";
import { startCopying } from "./copying.js";
import { startKeys } from "./keys.js";
import { startListening } from "./live.js";
import { startThemeSwitch } from "./switch.js";

// The answer to a form stands at an address for forms: whoever reloads means the page that the form was on.
const own = document.querySelector('meta[name="own-page"]')?.content;
if (own?.startsWith("/")) history.replaceState(history.state, "", own);
startThemeSwitch();
// On a phone the rooms are a row that scrolls: the one that is open must be seen.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
startCountdowns();
startConfirming();
startCopying();
startKeys();
startListening();
