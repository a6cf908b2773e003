// A page that is read at a glance: where it is longer than twelve screens, each section shows how it begins, and a button
// says what else it has. Nothing leaves the page: searching, links and the keyboard open what they lead to.

import { makeButton } from "./dom.js";

const MOST_PAGE_PX = 12 * 900;
const LEAST_SECTION_PX = 240;
const BUTTON_PX = 56;
const NEVER_CUT = "#flame";
const COUNTED_PARTS = [
  [".gain", "opportunity", "opportunities"],
  ["tbody tr", "row", "rows"],
];

/** Cut long sections, now and whenever what they show changes its size. */
export function startBounding() {
  const all = [...document.querySelectorAll("main > section")];
  const sections = all.filter((section) => !section.matches(NEVER_CUT));
  const opened = new Set();
  let asked = 0;
  const fit = () => {
    asked = 0;
    const each = heightEach(sections);
    for (const section of sections) {
      const most = each * roomOf(section);
      if (opened.has(section) || section.scrollHeight <= most + BUTTON_PX) showWhole(section);
      else showStart(section, most, () => open(section));
    }
  };
  const later = () => {
    if (!asked) asked = requestAnimationFrame(fit);
  };
  const open = (section) => {
    opened.add(section);
    showWhole(section);
    section.scrollTop = 0;
  };
  const watch = new ResizeObserver(later);
  for (const child of all.flatMap((section) => [...section.children])) watch.observe(child);
  for (const section of sections) {
    // What scrolls inside a cut section leads to something in it: a search, a link, the keyboard.
    section.addEventListener("scroll", () => section.scrollTop && open(section));
  }
  fit();
}

// What to change is read first, so it gets more room than what it rests on.
function roomOf(section) {
  return section.matches("#opportunities") ? 2 : 1;
}

// How high a section of room 1 may be, so that all of them are as high as a page may be; the same whichever are open.
function heightEach(sections) {
  const shown = sections.reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
  let room = MOST_PAGE_PX - (document.documentElement.scrollHeight - shown);
  let rooms = sections.reduce((sum, section) => sum + roomOf(section), 0);
  const byHeight = sections.map((section) => ({ own: roomOf(section), height: section.scrollHeight }));
  byHeight.sort((one, other) => one.height / one.own - other.height / other.own);
  for (const { own, height } of byHeight) {
    const each = room / rooms;
    if (height > each * own) return Math.max(Math.floor(each) - BUTTON_PX, LEAST_SECTION_PX);
    room -= height;
    rooms -= own;
  }
  return Number.POSITIVE_INFINITY;
}

function showStart(section, most, open) {
  section.style.setProperty("--most", `${most}px`);
  section.classList.add("cut");
  const button = section.querySelector(":scope > .uncut") ?? section.appendChild(makeButton("uncut", "", "", open));
  button.textContent = `Show the rest: ${restOf(section, most)}`;
}

function showWhole(section) {
  section.classList.remove("cut");
  section.querySelector(":scope > .uncut")?.remove();
}

// What lies below the cut, counted.
function restOf(section, most) {
  const below = section.getBoundingClientRect().top + most - BUTTON_PX;
  const words = [];
  for (const [selector, one, many] of COUNTED_PARTS) {
    const parts = [...section.querySelectorAll(selector)].filter(
      (part) => part.offsetParent && !part.closest("details:not([open])"),
    );
    const count = parts.filter((part) => part.getBoundingClientRect().bottom > below).length;
    if (count) words.push(`${count} ${count === 1 ? one : many}`);
  }
  return (
    words.join(", ") || `${Math.round((100 * (section.scrollHeight - most)) / section.scrollHeight)} % of this section`
  );
}
