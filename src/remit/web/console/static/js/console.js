// What every page does with JavaScript. Without it, everything essential works too: pages, links and forms.
import { startCountdowns } from "./countdown.js";
import { startConfirming } from "./confirm.js";
import { startCopying } from "./copying.js";
import { startKeys } from "./keys.js";
import { startListening } from "./live.js";
import { startThemeSwitch } from "./switch.js";

startThemeSwitch();
// On a phone the rooms are a row that scrolls: the one that is open must be seen.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
startCountdowns();
startConfirming();
startCopying();
startKeys();
startListening();
