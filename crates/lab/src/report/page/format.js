// Formats of numbers and units, and the styles of columns.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element with attributes and children (strings become text). */
function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/** Makes an SVG element with attributes. */
function draw(tag, attributes = {}) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
}

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** Formats a number with three significant digits and a suffix: 54.3k, 2.73M. */
function short(v) {
  const a = Math.abs(v);
  if (v === 0) return "0";
  for (const [size, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    // Without the factor 999.6 would be printed as 1000.
    if (a >= size * 0.9995) return trim((v / size).toPrecision(3)) + suffix;
  }
  return a < 1e-3 ? v.toExponential(1) : trim(v.toPrecision(3));
}

/** Formats a value in a column's unit. */
function inUnit(v, unit) {
  if (v === null || Number.isNaN(v)) return "–";
  if (unit === "share") return trim((v * 100).toFixed(1)) + " %";
  return short(v);
}

/** Formats nanoseconds as a duration: 250 ns, 1.2 µs, 35 ms, 2 s. */
function duration(ns) {
  for (const [size, suffix] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= size * 0.9995) return trim((ns / size).toPrecision(3)) + " " + suffix;
  }
  return trim(ns.toPrecision(3)) + " ns";
}

/** Formats a share: 12 %, 1 in 400. */
function oneIn(v) {
  if (v >= 0.0995) return `${Math.round(v * 100)} %`;
  return v > 0 ? `1 in ${short(Number((1 / v).toPrecision(2)))}` : "none";
}

/** Formats seconds of simulated time. */
const seconds = (s) => (Math.abs(s) >= 100 ? s.toFixed(0) : s.toFixed(Math.abs(s) >= 10 ? 1 : 2)) + " s";

/** Formats a whole number with commas; small fractions keep their digits. */
function plain(v) {
  if (v === null) return "–";
  return Number.isInteger(v) || Math.abs(v) >= 1e4
    ? Math.round(v).toLocaleString("en-US")
    : v.toLocaleString("en-US", { maximumSignificantDigits: 5 });
}

/** Formats a relative change as a percentage, from tenfold on as a ratio. */
function changeText(base, now) {
  if (base === null || now === null) return "";
  if (base === now) return "=";
  if (base === 0) return "from 0";
  const change = now / base - 1;
  if (change >= 9.95) return `×${short(now / base)}`;
  return `${change > 0 ? "+" : "−"}${Math.abs(change * 100).toFixed(1)} %`;
}

/** Returns round numbers that divide lo..hi into about n parts. */
function ticks(lo, hi, n) {
  const raw = (hi - lo) / n;
  if (!(raw > 0)) return [lo];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw * 0.999) * power;
  const out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) out.push(i * step);
  return out;
}

/** Returns the powers of ten in lo..hi, thinned to at most n. */
function decades(lo, hi, n) {
  const from = Math.ceil(Math.log10(lo) - 1e-9), to = Math.floor(Math.log10(hi) + 1e-9);
  const every = Math.max(1, Math.ceil((to - from + 1) / n));
  const out = [];
  for (let e = from; e <= to; e++) if ((to - e) % every === 0) out.push(10 ** e);
  return out;
}

const COLORS = ["blue", "orange", "green", "purple", "red", "sky", "black"];
const MARKERS = ["circle", "square", "triangle", "diamond", "cross", "ring"];
// Levels that values are compared with are dashed and have no markers; measured values are solid
// and have markers. Both can be told apart in a black-and-white print.
const STYLES = {
  free: { color: "blue", marker: "circle", area: true },
  min: { color: "red", dash: "2 2", level: true },
  low: { color: "orange", dash: "6 3", level: true },
  high: { color: "green", dash: "10 3 2 3", level: true },
  dirty: { color: "orange", marker: "circle", area: true },
  writeback: { color: "blue", marker: "square" },
  dirty_limit: { color: "red", dash: "6 3", level: true },
  inactive_file: { color: "blue", marker: "circle" },
  active_file: { color: "orange", marker: "square" },
  inactive_anon: { color: "green", marker: "triangle" },
  active_anon: { color: "purple", marker: "diamond" },
  kswapd_cpu: { color: "blue", marker: "circle", area: true },
  flusher_active: { color: "orange", marker: "square" },
  write_throughput: { color: "blue", marker: "circle", area: true },
  read_throughput: { color: "orange", marker: "square" },
  queue: { color: "green", marker: "triangle", area: true },
};

/** Returns the style of the i-th column of a panel. */
function styleOf(name, i) {
  const known = STYLES[name.replace(/^nr_/, "")];
  if (known) return known;
  if (/background/.test(name)) return { color: "green", dash: "10 3 2 3", level: true };
  if (/limit|thresh/.test(name)) return { color: "red", dash: "6 3", level: true };
  return { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length] };
}

/** Returns the path of a marker around the origin. */
function markerPath(shape) {
  switch (shape) {
    case "square": return "M-2.6-2.6h5.2v5.2h-5.2z";
    case "triangle": return "M0-3.4L3.2 2.4h-6.4z";
    case "diamond": return "M0-3.6L3.2 0 0 3.6-3.2 0z";
    case "cross": return "M-3-1h2v-2h2v2h2v2h-2v2h-2v-2h-2z";
    case "ring": return "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0M-1.6 0a1.6 1.6 0 1 1 3.2 0a1.6 1.6 0 1 1-3.2 0";
    default: return "M-2.8 0a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0-5.6 0";
  }
}

