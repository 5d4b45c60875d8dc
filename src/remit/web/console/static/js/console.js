// What every page does with JavaScript. Without it, everything essential works too: pages, links and forms.
import { startCountdowns } from "./countdown.js";
import { startConfirming } from "./confirm.js";
import { startCopying } from "./copying.js";
import { startKeys } from "./keys.js";
import { startListening } from "./live.js";
import { startThemeSwitch } from "./switch.js";

startThemeSwitch();
startCountdowns();
startConfirming();
startCopying();
startKeys();
startListening();
