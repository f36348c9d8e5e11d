// The map of arrivals: the states in the usual composite projection, with Alaska and Hawaii below them, and a dot for each airport.
import { BORDERS, LAND } from "./states.js";
import { delayFill, element, keep } from "./svg.js";
import { many, minutes } from "./text.js";

const RADIANS = Math.PI / 180;
const SCALE = 1300;
const [CENTER_X, CENTER_Y] = [487.5, 305];
const BUSIEST = 6;
/** So many airports have their code beside their dot, where there is room. */
const NAMED = 12;
/** The room that a code takes, in pixels, and by how much it is nearer to its own dot than to any other one. */
const [LABEL_WIDTH, LABEL_HEIGHT, NEARER] = [28, 13, 6];
/** That of an airport of the list may be nearer by so little, where it has no better place: its dot is a large one. */
const NEARER_MIN = 1;
/** So many pixels further from its dot, and with a line to it, stands the code of an airport of the list that has no place beside it. */
const FURTHER = [8, 16, 26, 38];
/** The sides of a dot on which its code may stand, as directions. */
const SIDES = [[-1, 0], [1, 0], [0, -1], [0, 1], [-1, -1], [1, -1], [-1, 1], [1, 1]];
const EDGE = 980;
const NEW_YORK = [-73.9, 40.7];
/** The room that the name of New York takes, in pixels, and where it may stand, in the sea south of the city. */
const [NAME_WIDTH, SOUTH] = [54, [40, 60, 80]];

/** Albers' equal-area conic projection between two parallels, about a meridian; `at` is where a point of that meridian and a latitude lies. */
function conic(meridian, latitude, offset, parallels, scale, at) {
  const [first, second] = parallels.map((parallel) => Math.sin(parallel * RADIANS));
  const n = (first + second) / 2;
  const c = 1 + first * (2 * n - first);
  const place = (longitude, sine) => {
    const radius = Math.sqrt(c - 2 * n * sine) / n;
    const angle = n * longitude * RADIANS;
    return [radius * Math.sin(angle), radius * Math.cos(angle)];
  };
  const [x0, y0] = place(offset, Math.sin(latitude * RADIANS));
  return (longitude, sine) => {
    const [x, y] = place(longitude - meridian, sine);
    return [at[0] + scale * (x - x0), at[1] + scale * (y - y0)];
  };
}

const MAINLAND = conic(-96, 38.7, -0.6, [29.5, 45.5], SCALE, [CENTER_X, CENTER_Y]);
const ALASKA = conic(-154, 58.5, -2, [55, 65], SCALE * 0.35, [CENTER_X - 0.307 * SCALE, CENTER_Y + 0.201 * SCALE]);
const HAWAII = conic(-157, 19.9, -3, [8, 18], SCALE, [CENTER_X - 0.205 * SCALE, CENTER_Y + 0.212 * SCALE]);

/** Return where a point of the United States is on the map. */
export function place(longitude, latitude) {
  const projection = latitude > 50 ? ALASKA : longitude < -140 ? HAWAII : MAINLAND;
  return projection(longitude, Math.sin(latitude * RADIANS));
}

const radius = (flights, most) => 4 + 20 * Math.sqrt(flights / most);

/** The largest of 1, 2, 5, 10, … that is not above a number. */
function round(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [5, 2, 1].find((factor) => factor * power <= number) * power;
}

export class ArrivalsMap {
  #dots = element("g", {});
  #names = element("g", {});
  #svg;
  #sizes;
  #busiest;
  #elsewhere;

  constructor(svg, sizes, busiest, elsewhere) {
    [this.#svg, this.#sizes, this.#busiest, this.#elsewhere] = [svg, sizes, busiest, elsewhere];
    svg.replaceChildren(
      element("path", { d: LAND, class: "land" }),
      element("path", { d: BORDERS, class: "borders" }),
      this.#dots,
      this.#names,
    );
  }

  /** `isLive` says that there are no others: without any, the map says so. */
  draw(records, isLive) {
    const unit = this.#svg.clientWidth / this.#svg.viewBox.baseVal.width;
    this.#svg.style.setProperty("--unit", unit.toFixed(3));
    const airports = records.filter(({ flights }) => flights > 0).sort((one, other) => other.flights - one.flights);
    if (airports.length === 0) {
      this.#busiest.replaceChildren(...(isLive ? [Object.assign(document.createElement("li"), { textContent: "No flight has landed yet." })] : []));
      return;
    }
    const most = airports[0].flights;
    const known = airports.filter((airport) => this.#isOnMap(airport));
    keep(this.#dots, known.map(({ dest, airport, flights, delay_min: delay, lat, lon }) => {
      const [cx, cy] = place(lon, lat);
      const title = `${dest}, ${airport.name}: ${many(flights, "flight")}, on average ${minutes(delay ?? 0)}`;
      return { key: dest, name: "circle", class: "shade", cx: cx.toFixed(1), cy: cy.toFixed(1), r: radius(flights, most).toFixed(1), style: `fill: ${delayFill(delay ?? 0)}`, title };
    }));
    this.#drawNames(known, most, unit);
    this.#drawSizes(most, unit);
    const others = airports.filter((airport) => !known.includes(airport));
    const flown = others.reduce((sum, { flights }) => sum + flights, 0);
    this.#elsewhere.textContent = others.length ? `not on the map: ${many(flown, "flight")} to ${others.map(({ dest }) => dest).join(", ")}` : "";
    this.#busiest.replaceChildren(...airports.slice(0, BUSIEST).map(({ dest, airport, flights, delay_min: delay }) => {
      const item = document.createElement("li");
      const parts = [airport?.name ?? "", many(flights, "flight"), minutes(delay ?? 0)];
      item.append(...parts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
      item.firstChild.prepend(Object.assign(document.createElement("b"), { textContent: dest }), " ");
      return item;
    }));
  }

  /** Whether an airport has a place on the map: the Caribbean is beyond its edge. */
  #isOnMap({ lat, lon }) {
    if (!Number.isFinite(lat) || !Number.isFinite(lon)) return false;
    const { x: left, y: top, width, height } = this.#svg.viewBox.baseVal;
    const [x, y] = place(lon, lat);
    return x >= left && x <= left + width && y >= top && y <= top + height;
  }

  /**
   * The name of New York, and the codes of the busiest airports: each on a side of its dot where it can't be read as another
   * one's, and where no busier one's code is. One of the list may stand further away, with a line to its dot. A name without a
   * free place is left out.
   */
  #drawNames(airports, most, unit) {
    const dots = airports.map(({ flights, lat, lon }) => {
      const [x, y] = place(lon, lat);
      return { x, y, r: radius(flights, most) };
    });
    const [west, city] = place(...NEW_YORK);
    const south = SOUTH.map((below) => city + below).find((y) => !dots.some((dot) => (
      dot.x + dot.r > EDGE - NAME_WIDTH / unit && dot.x - dot.r < EDGE && dot.y + dot.r > y - LABEL_HEIGHT / unit && dot.y - dot.r < y + 4 / unit)));
    const [taken, name] = [[], []];
    if (south !== undefined) {
      const [half, top] = [3 / unit, south - (LABEL_HEIGHT + 1) / unit];
      // It takes the room of two codes, and so do its mark and the line to it.
      taken.push(...[0.5, 1.5].map((widths) => [EDGE - (widths * LABEL_WIDTH) / unit, south]), [west, city], [(west + EDGE - NAME_WIDTH / unit / 2) / 2, (city + top) / 2]);
      name.push(
        { key: "New York", name: "text", class: "place", "text-anchor": "end", text: "New York", x: EDGE, y: south.toFixed(1) },
        // Without its own mark, the name would be that of the nearest dot.
        { key: "from", name: "path", class: "origin", d: `M${west - half},${city - half}h${2 * half}v${2 * half}h${-2 * half}zM${west},${city + half}L${EDGE - NAME_WIDTH / unit / 2},${top}` },
      );
    }
    keep(this.#names, name.concat(airports.slice(0, NAMED).flatMap(({ dest, flights, lat, lon }, index) => {
      const [x, y] = place(lon, lat);
      const [width, height] = [LABEL_WIDTH / unit, LABEL_HEIGHT / unit];
      const own = radius(flights, most);
      const { x: edge, y: top, width: across, height: down } = this.#svg.viewBox.baseVal;
      const placesAt = (further) => SIDES.map(([right, below]) => {
        const from = (right && below ? own * Math.SQRT1_2 : own) + further / unit;
        return [x + right * (from + 4 + width / 2), y + below * (from + 2 + height / 2)];
      });
      const freeAt = (nearer, further = 0) => placesAt(further).find(([cx, cy]) => {
        const gap = (dot) => Math.hypot(Math.max(0, Math.abs(dot.x - cx) - width / 2), Math.max(0, Math.abs(dot.y - cy) - height / 2)) - dot.r;
        const nearest = (further ? 0 : gap({ x, y, r: own })) + nearer / unit;
        return cx - width / 2 >= edge && cx + width / 2 <= edge + across && cy - height / 2 >= top && cy + height / 2 <= top + down
          && !taken.some((other) => Math.abs(other[0] - cx) < width && Math.abs(other[1] - cy) < height)
          && !dots.some((dot) => !(dot.x === x && dot.y === y) && gap(dot) < nearest);
      });
      const isListed = index < BUSIEST;
      const beside = freeAt(NEARER) ?? (isListed ? freeAt(NEARER_MIN) : undefined);
      const free = beside ?? (isListed ? FURTHER.map((further) => freeAt(NEARER_MIN, further)).find(Boolean) : undefined);
      if (free === undefined) return [];
      taken.push(free);
      const share = own / Math.hypot(free[0] - x, free[1] - y);
      const [from, below] = [x + share * (free[0] - x), y + share * (free[1] - y)];
      const line = { key: `${dest} line`, name: "path", class: "lead", d: `M${from.toFixed(1)},${below.toFixed(1)}L${free[0].toFixed(1)},${free[1].toFixed(1)}` };
      return [...(beside ? [] : [line]), { key: dest, name: "text", class: "code", "text-anchor": "middle", text: dest, x: free[0].toFixed(1), y: (free[1] + 4 / unit).toFixed(1) }];
    })));
  }

  /** The legend of the sizes, as large as on the map. */
  #drawSizes(most, unit) {
    const numbers = [...new Set([round(most), round(Math.max(1, most / 10))])];
    this.#sizes.replaceChildren(...numbers.flatMap((number) => {
      const r = radius(number, most) * unit;
      const svg = element("svg", { width: 2 * r + 2, height: 2 * r + 2, "aria-hidden": "true" });
      svg.append(element("circle", { cx: r + 1, cy: r + 1, r }));
      return [svg, many(number, "flight")];
    }));
  }
}
