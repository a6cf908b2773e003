// Light and dark: the system's choice until the reader makes another, remembered where the browser allows it.

const KEY = "pinprof-theme";

export function startTheme(button, changed) {
  const root = document.documentElement;
  // Not at the top level: in the worker, which is made of the same script, there is no window.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    root.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "☾" : "☀";
    button.title = `Switch to the ${other} theme`;
    button.setAttribute("aria-label", button.title);
    changed();
  };
  apply(remembered() || (dark.matches ? "dark" : "light"));
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    remember(theme);
    apply(theme);
  });
  dark.addEventListener("change", () => {
    if (!remembered()) apply(dark.matches ? "dark" : "light");
  });
}

/** A custom property of the style sheet, as the current theme sets it. */
export function themed(property) {
  return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}

// Storage is refused for some files and in private windows: the choice then lasts as long as the page.
function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return;
  }
}
