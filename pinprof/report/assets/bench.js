// The page of `pinprof bench`: its plots, the theme, and copying the command.

import { startCopying } from "./core/copying.js";
import { byId, readJson } from "./core/dom.js";
import { startFitting } from "./core/fitting.js";
import { startPrinting } from "./core/pages.js";
import { startTheme } from "./core/theme.js";
import { Plots } from "./plots/figures.js";

const plots = new Plots(readJson("page-data").plots);
startFitting();
startTheme(byId("theme"), () => plots.recolour());
startPrinting(() => plots.recolour());
startCopying();
