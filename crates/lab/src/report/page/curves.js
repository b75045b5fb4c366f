// Curves over the cache's size: a chart for each figure, a line for each policy, and a shared
// horizontal axis.

const data = JSON.parse(document.getElementById("data").textContent);
const charts = document.getElementById("charts");

const [least, most] = [data.sizes[0], data.sizes[data.sizes.length - 1]];
// The axis is logarithmic for equal ratios and wide ranges, and linear for equal steps.
const n = data.sizes.length;
const even = n > 2 && data.sizes[n - 1] - data.sizes[n - 2] < 1.5 * (data.sizes[1] - least);
const log = !even && most / least >= 10;

/** The axis of sizes: its ticks are decades or round numbers, or the sizes that were tried. */
class Sizes extends SharedX {
  ticks(n) {
    const inner = super.ticks(n);
    if (inner.length > 3) return inner;
    // Too few decades: use the sizes that were tried, as many as fit.
    const own = data.sizes.filter((s) => s >= this.lo && s <= this.hi);
    const every = Math.ceil(own.length / Math.min(n, 12));
    const some = own.filter((_, i) => i % every === 0);
    return some.length > 1 ? some : [this.lo, this.hi];
  }
}

/** Formats a number of pages as their size in bytes. */
function sized(pages) {
  const kib = Math.round(pages) * 4;
  if (kib < 1024) return `${kib} KiB`;
  return kib < 1048576 ? `${trim((kib / 1024).toFixed(1))} MiB` : `${trim((kib / 1048576).toFixed(1))} GiB`;
}

function lineStyle(i) {
  const style = { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length] };
  if (i >= COLORS.length) style.dash = "8 3";
  return style;
}

if (data.sizes.length < 2) {
  charts.append(make("p", { class: "missing" }, "A curve needs at least two sizes; the table has the figures of the one size."));
} else {
  const x = new Sizes(least, most, { log, format: sized, tickLabel: sized, unit: "" });
  for (const panel of data.panels) {
    const format = panel.unit === "s" ? (v) => (v === 0 ? "0 s" : duration(v * 1e9)) : null;
    const row = new Row({ unit: panel.unit, format });
    const lines = panel.lines.map((line, i) =>
      new Line(line.name, lineStyle(i), data.sizes, line.values, {
        tag: row.format(line.values[line.values.length - 1]),
      }));
    const chart = new Chart(row, x, lines, {
      policy: "", label: panel.title, height: 320, tag: sized(most),
    });
    const heading = make("h3", {}, panel.title);
    charts.append(heading, make("p", { class: "hint" }, panel.hint), chart.figure);
  }
  const hint = make("p", { class: "hint" }, "Drag to zoom, double-click or Escape to see all sizes.");
  charts.append(hint);
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") x.reset(); });
  x.redraw();
  let width = charts.clientWidth;
  new ResizeObserver(() => {
    if (charts.clientWidth === width) return;
    width = charts.clientWidth;
    x.redraw();
  }).observe(charts);
  const print = (on) => () => { document.body.classList.toggle("printing", on); x.redraw(); };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
}
