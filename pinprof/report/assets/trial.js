// The page of `pinprof try`: the theme, sections and copying. Its figures are drawn as it is written.

import { startCopying } from "./core/copying.js";
import { byId } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { startPrinting, startSections } from "./core/pages.js";
import { startTheme } from "./core/theme.js";

startFitting();

startTheme(byId("theme"), () => {});
startPrinting(() => {});
startSections();
startCopying();
