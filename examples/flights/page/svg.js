// What the charts share: elements kept by key, a drawing area in pixels, and the one scale of delays.
const SVG = "http://www.w3.org/2000/svg";
/** The ends of the scale, in minutes; beyond them the color stays. */
const [EARLY_MAX, LATE_MAX] = [10, 30];
/** From this share of an end's color on, a dark ground has become a light one. */
const STRONG = 0.47;
/** From this one on, it is a light one even while it is dimmed. */
const FULL = 0.72;

const shareOf = (minutes) => Math.min(1, Math.abs(minutes) / (minutes < 0 ? EARLY_MAX : LATE_MAX));

/** The color of a delay, as the ramp of the legends has it: 0 is its neutral middle. */
export const delayFill = (minutes) => `color-mix(in oklab, var(--delay-${minutes < 0 ? "early" : "late"}) ${Math.round(shareOf(minutes) * 100)}%, var(--delay-none))`;

/** The class of a text on such a color. */
export const onShade = (minutes) => `on-shade${shareOf(minutes) >= STRONG ? " strong" : ""}${shareOf(minutes) >= FULL ? " full" : ""}`;

/** Return the width and height of an SVG in pixels, which become its units: text is as large in it as beside it. */
export function area(svg) {
  const { clientWidth: width, clientHeight: height } = svg;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return [width, height];
}

export function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  return update(made, attributes, text);
}

function update(made, attributes, text) {
  for (const [key, value] of Object.entries(attributes)) if (made.getAttribute(key) !== String(value)) made.setAttribute(key, value);
  if (text !== undefined && made.textContent !== text) made.textContent = text;
  return made;
}

/** Let the parent have these children, each `{key, name, title, text, …attributes}`; one that stays keeps its element, and the pointer its title. */
export function keep(parent, items) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const children = items.map(({ key, name, title, text, ...attributes }) => {
    const child = old.get(key) ?? element(name, { "data-key": key });
    update(child, attributes, text);
    if (title !== undefined) update(child.firstElementChild ?? child.appendChild(element("title", {})), {}, title);
    return child;
  });
  if (children.length !== parent.children.length || children.some((child, index) => child !== parent.children[index])) parent.replaceChildren(...children);
}
