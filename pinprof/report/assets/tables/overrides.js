// Places of the page that show something else while a filter is active, and what stood there before.

export class Overrides {
  constructor() {
    this.content = new Map();
    this.attributes = new Map();
  }

  /** Show text or nodes in a place. */
  set(place, ...content) {
    if (!place) return;
    if (!this.content.has(place)) this.content.set(place, [...place.childNodes]);
    place.replaceChildren(...content);
  }

  /** Set an attribute; null takes it away. */
  attribute(place, name, value) {
    const before = this.attributes.get(place) ?? new Map();
    this.attributes.set(place, before);
    if (!before.has(name)) before.set(name, place.getAttribute(name));
    setOrRemove(place, name, value);
  }

  /** Everything as it came. */
  restore() {
    for (const [place, content] of this.content) place.replaceChildren(...content);
    for (const [place, before] of this.attributes) {
      for (const [name, value] of before) setOrRemove(place, name, value);
    }
    this.content.clear();
    this.attributes.clear();
  }
}

function setOrRemove(place, name, value) {
  if (value === null) place.removeAttribute(name);
  else place.setAttribute(name, value);
}
