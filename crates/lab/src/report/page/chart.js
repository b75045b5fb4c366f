// Charts: lines over a shared horizontal axis and a vertical scale shared by all charts of a row,
// so that policies can be compared by eye.

const MARGIN = { left: 62, right: 10, top: 6, bottom: 18 };

/** The horizontal axis of many charts: the range shown, and the place of the cursor. */
class SharedX {
  constructor(lo, hi, { log = false, format = seconds, tickLabel = (v) => short(v), unit = "" } = {}) {
    Object.assign(this, { lo, hi, log, format, tickLabel, unit });
    this.full = [lo, hi];
    this.cursor = null;
    this.charts = [];
    this.listeners = [];
  }

  get zoomed() { return this.lo !== this.full[0] || this.hi !== this.full[1]; }

  /** Converts x to a share of the width; `at` converts back. */
  share(x) {
    return this.log
      ? Math.log(x / this.lo) / Math.log(this.hi / this.lo)
      : (x - this.lo) / (this.hi - this.lo);
  }

  at(share) {
    const s = Math.min(1, Math.max(0, share));
    return this.log ? this.lo * (this.hi / this.lo) ** s : this.lo + s * (this.hi - this.lo);
  }

  ticks(n) { return this.log ? decades(this.lo, this.hi, n) : ticks(this.lo, this.hi, n); }

  point(x) {
    this.cursor = x;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const c of this.charts) c.point(this.cursor);
      for (const l of this.listeners) l();
    });
  }

  /** Returns the place that charts name for the cursor: that of the nearest sample. */
  get named() {
    const first = this.charts.find((c) => c.seen) || this.charts[0];
    return this.cursor === null || !first ? this.cursor : first.named(this.cursor);
  }

  select(a, b) {
    for (const c of this.charts) c.select(a, b);
  }

  zoom(a, b) {
    const [lo, hi] = a < b ? [a, b] : [b, a];
    const least = this.log ? lo * 1.05 : lo + (this.full[1] - this.full[0]) / 2000;
    this.lo = Math.max(this.full[0], lo);
    this.hi = Math.min(this.full[1], Math.max(hi, least));
    this.redraw();
  }

  reset() {
    [this.lo, this.hi] = this.full;
    this.redraw();
  }

  redraw() {
    for (const row of new Set(this.charts.map((c) => c.row))) row.measure();
    for (const c of this.charts) c.draw();
    this.point(this.cursor);
    for (const l of this.listeners) l();
  }
}

/** Charts that share a vertical scale. */
class Row {
  constructor({ unit = "", scale = "all", floor = null, ceiling = null, format = null } = {}) {
    Object.assign(this, { unit, scale, floor, ceiling });
    this.format = format || ((v) => inUnit(v, unit));
    this.charts = [];
  }

  /** Finds the vertical range of the values that are shown now. */
  measure() {
    let max = 0, least = Infinity, mark = 0, lowest = Infinity;
    for (const { lines, x } of this.charts) {
      for (const line of lines) {
        const [from, to] = line.span(x);
        for (let i = from; i <= to; i++) {
          const v = line.y(i);
          if (v === null) continue;
          if (v > max) max = v;
          if (v > 0 && v < least) least = v;
          if (!line.style.level && v < lowest) lowest = v;
          if (line.name === "high" && v > mark) mark = v;
          if (line.constant) break;
        }
      }
    }
    this.log = this.scale === "log" && least < Infinity;
    // Focus: clip the scale to the watermarks, if any values lie near them.
    this.clipped = this.scale === "focus" && mark > 0 && max > 3.5 * mark && lowest < 3 * mark;
    if (this.clipped) max = 3 * mark;
    if (this.log) {
      this.bottom = this.floor ?? 10 ** Math.floor(Math.log10(least));
      this.top = this.ceiling ?? max * 1.3;
      if (this.top <= this.bottom) this.top = this.bottom * 10;
    } else {
      this.bottom = 0;
      this.top = this.ceiling ?? (this.clipped ? max : max * 1.06);
      if (max > this.top) this.top = max;
      if (!(this.top > 0)) this.top = 1;
    }
  }

  share(v) {
    return this.log
      ? Math.log(Math.max(v, this.bottom) / this.bottom) / Math.log(this.top / this.bottom)
      : (v - this.bottom) / (this.top - this.bottom);
  }

  ticks(n) { return this.log ? decades(this.bottom, this.top, n + 1) : ticks(this.bottom, this.top, n); }
}

/** A line of a chart: values `ys` over `xs`; a single number if the value never changes. */
class Line {
  /** In a stack, `ys` are sums, `base` is the line below, and `own` the values added to it. */
  constructor(name, style, xs, ys, { step = false, tag = null, own = null, base = null } = {}) {
    Object.assign(this, { name, style, xs, ys, step, tag, own, base });
    this.constant = !Array.isArray(ys);
  }

  /** Returns true if all values of the line are 0. */
  get zero() {
    if (this.empty) return false;
    return this.constant ? this.ys === 0 : (this.own || this.ys).every((v) => !v);
  }

  get empty() { return !this.xs.length || (!this.constant && this.ys.every((v) => v === null)); }

  y(i) { return this.constant ? this.ys : this.ys[i]; }

  /** Returns the index of the last x that is not above the given one. */
  index(x) {
    let lo = 0, hi = this.xs.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.xs[mid] <= x) lo = mid; else hi = mid - 1;
    }
    return lo;
  }

  /** Returns the first and the last index that are needed to draw the range shown. */
  span(x) {
    return [this.index(x.lo), Math.min(this.xs.length - 1, this.index(x.hi) + 1)];
  }

  /** Returns the height of the line at x; null beyond its ends. */
  under(x) {
    const i = this.indexUnder(x);
    return i === null ? null : this.y(i);
  }

  /** Returns the value that the key shows at x: in a stack the line's own. */
  told(x) {
    const i = this.indexUnder(x);
    return i === null ? null : this.own ? this.own[i] : this.y(i);
  }

  indexUnder(x) {
    const { xs } = this;
    if (!xs.length || x < xs[0]) return null;
    let i = this.index(x);
    if (!this.step && i + 1 < xs.length && xs[i + 1] - x < x - xs[i]) i++;
    const step = xs.length > 1 ? xs[xs.length - 1] - xs[xs.length - 2] : Infinity;
    return i === xs.length - 1 && x > xs[i] + step ? null : i;
  }

  /** Returns the mean over the range shown; null without values. */
  mean(x) {
    if (this.constant) return this.ys;
    const ys = this.own || this.ys;
    let sum = 0, n = 0;
    for (let [i, to] = this.span(x); i <= to; i++) {
      if (ys[i] !== null) { sum += ys[i]; n++; }
    }
    return n ? sum / n : null;
  }
}

/** Returns the points of a line in pixels, cut at gaps: the first, lowest, highest and last value
 * of each pixel column at most. */
function tracePoints(line, px, py, from, to, width) {
  const parts = [];
  let part = [];
  const end = () => { if (part.length) parts.push(part); part = []; };
  if (line.constant) return [[[px(line.xs[from]), py(line.ys)], [px(line.xs[to]), py(line.ys)]]];
  if (to - from < 3 * width || line.step) {
    for (let i = from; i <= to; i++) {
      const v = line.ys[i];
      if (v === null) { end(); continue; }
      const x = px(line.xs[i]), y = py(v);
      if (line.step && part.length) part.push([x, part[part.length - 1][1]]);
      part.push([x, y]);
    }
    end();
    return parts;
  }
  let column = null, picks = null;
  const flush = () => {
    if (!picks) return;
    for (const i of [...new Set(picks)].sort((a, b) => a - b)) part.push([px(line.xs[i]), py(line.ys[i])]);
    picks = null;
  };
  for (let i = from; i <= to; i++) {
    const v = line.ys[i];
    if (v === null) { flush(); end(); column = null; continue; }
    const c = Math.floor(px(line.xs[i]));
    if (c !== column) { flush(); column = c; picks = [i, i, i, i]; }
    if (v < line.ys[picks[1]]) picks[1] = i;
    if (v > line.ys[picks[2]]) picks[2] = i;
    picks[3] = i;
  }
  flush();
  end();
  return parts;
}

const pathOf = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

let clips = 0;

// The cursor is drawn in charts that can be seen; others are updated when they come into view.
const sight = new IntersectionObserver((entries) => {
  for (const e of entries) {
    const chart = e.target.chart;
    chart.seen = e.isIntersecting;
    if (chart.seen && chart.stale) chart.point(chart.x.cursor);
  }
});

class Chart {
  /** `end`: the end of the run, if the axis is longer. `tag`: text of the key without a cursor. */
  constructor(row, x, lines, { policy, label, height = 104, end = null, tag = "mean" }) {
    Object.assign(this, { row, x, lines, policy, label, height, end, tag });
    this.figure = make("figure");
    const caption = make("figcaption", {}, make("span", { class: "policy" }, policy));
    this.where = make("span", { class: "at" }, tag);
    caption.append(this.where);
    this.values = lines.map((line) => {
      const value = make("b");
      caption.append(make("span", { class: "key" }, this.swatch(line), line.name, value));
      return value;
    });
    this.plot = make("div", { class: "plot" });
    this.svg = draw("svg", { role: "img", "aria-label": `${label}, ${policy}`, height });
    // The cursor has a layer of its own, so that lines are not painted again when it moves.
    this.layer = draw("svg", { class: "layer", "aria-hidden": "true", height });
    this.plot.append(this.svg, this.layer);
    this.seen = false;
    this.figure.chart = this;
    sight.observe(this.figure);
    this.figure.append(caption, this.plot);
    this.clip = `clip${clips++}`;
    row.charts.push(this);
    x.charts.push(this);
    this.listen();
  }

  swatch({ style }) {
    const svg = draw("svg", { width: 22, height: 10, "aria-hidden": "true" });
    const color = `var(--${style.color})`;
    const line = draw("line", { x1: 0, x2: 22, y1: 5, y2: 5, stroke: color, "stroke-width": 1.6 });
    if (style.dash) line.setAttribute("stroke-dasharray", style.dash);
    svg.append(line);
    if (style.marker) svg.append(draw("path", { d: markerPath(style.marker), fill: color, transform: "translate(11 5)" }));
    return svg;
  }

  listen() {
    const x = this.x;
    const at = (e) => {
      const box = this.svg.getBoundingClientRect();
      return x.at((e.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right));
    };
    let from = null, pressed = 0;
    this.svg.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      from = at(e);
      pressed = e.clientX;
      this.svg.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    this.svg.addEventListener("pointermove", (e) => {
      x.point(at(e));
      if (from !== null) x.select(from, at(e));
    });
    const stop = (e) => {
      const start = from;
      from = null;
      x.select(null);
      if (start !== null && e.type === "pointerup" && Math.abs(e.clientX - pressed) > 4) x.zoom(start, at(e));
    };
    this.svg.addEventListener("pointerup", stop);
    this.svg.addEventListener("pointercancel", stop);
    this.svg.addEventListener("pointerleave", () => { if (from === null) x.point(null); });
    this.svg.addEventListener("dblclick", () => x.reset());
  }

  draw() {
    const { svg, row, x, height } = this;
    const full = this.plot.clientWidth;
    if (!full) return;
    const width = Math.max(40, full - MARGIN.left - MARGIN.right);
    const tall = height - MARGIN.top - MARGIN.bottom;
    const px = (v) => MARGIN.left + x.share(v) * width;
    const py = (v) => MARGIN.top + (1 - row.share(v)) * tall;
    Object.assign(this, { px, py, bottom: MARGIN.top + tall });
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${full} ${height}`);
    const clip = draw("clipPath", { id: this.clip });
    clip.append(draw("rect", { x: MARGIN.left, y: MARGIN.top - 1, width, height: tall + 2 }));
    svg.append(clip);
    this.axes(px, py, full, width, tall);
    const inside = draw("g", { "clip-path": `url(#${this.clip})` });
    svg.append(inside);
    // Levels are drawn last, so that measured lines do not hide them.
    const order = [...this.lines.keys()].sort((a, b) => Boolean(this.lines[a].style.level) - Boolean(this.lines[b].style.level));
    for (const i of order) this.line(inside, this.lines[i], i, px, py, width);
    if (row.clipped) this.beyond(px);
    if (this.end !== null && this.end < x.hi && this.end > x.lo) {
      const e = px(this.end);
      inside.append(draw("line", { class: "end", x1: e, x2: e, y1: MARGIN.top, y2: this.bottom }));
      if (e < MARGIN.left + width - 80) this.text(e + 5, MARGIN.top + 10, `ended ${seconds(this.end)}`, "start");
    }
    this.selection = draw("rect", { class: "select", y: MARGIN.top, height: tall, visibility: "hidden" });
    this.cross = draw("line", { class: "cross", y1: MARGIN.top, y2: this.bottom, visibility: "hidden" });
    this.dots = this.lines.map(({ style }) =>
      draw("circle", { class: "halo", r: 3.2, fill: `var(--${style.color})`, visibility: "hidden" }));
    this.layer.setAttribute("viewBox", `0 0 ${full} ${height}`);
    this.layer.replaceChildren(this.selection, this.cross, ...this.dots);
    this.point(x.cursor);
  }

  axes(px, py, full, width, tall) {
    const { svg, row, x } = this;
    for (const v of row.ticks(Math.max(2, Math.round(tall / 30)))) {
      const y = Math.round(py(v)) + 0.5;
      if (y < MARGIN.top - 1) continue;
      svg.append(draw("line", { class: v === row.bottom ? "axis" : "grid", x1: MARGIN.left, x2: full - MARGIN.right, y1: y, y2: y }));
      this.text(MARGIN.left - 6, y + 3.5, row.format(v), "end");
    }
    svg.append(draw("line", { class: "axis", x1: MARGIN.left, x2: full - MARGIN.right, y1: this.bottom + 0.5, y2: this.bottom + 0.5 }));
    const marks = x.ticks(Math.max(2, Math.floor(width / (x.log ? 50 : 72))));
    marks.forEach((v, i) => {
      const at = px(v);
      svg.append(draw("line", { class: "axis", x1: at, x2: at, y1: this.bottom, y2: this.bottom + 3 }));
      const label = x.tickLabel(v) + (i === marks.length - 1 ? x.unit : "");
      this.text(at, this.bottom + 14, label, at > full - 24 ? "end" : "middle");
    });
  }

  line(into, line, i, px, py, width) {
    if (!line.xs.length) return;
    const [from, to] = line.span(this.x);
    const color = `var(--${line.style.color})`;
    const parts = tracePoints(line, px, py, from, to, width);
    for (const points of parts) {
      const d = pathOf(points.length > 1 ? points : [points[0], [points[0][0] + 1, points[0][1]]]);
      if (line.style.area) {
        const below = line.base ? tracePoints(line.base, px, py, from, to, width)[0] : null;
        const close = below ? "L" + pathOf(below.reverse()).slice(1) + "Z" : `L${points[points.length - 1][0].toFixed(1)} ${this.bottom}L${points[0][0].toFixed(1)} ${this.bottom}Z`;
        into.append(draw("path", { class: line.own ? "area stack" : "area", d: d + close, fill: color }));
      }
      const path = draw("path", { class: "data", d, stroke: color, "stroke-width": line.style.level ? 1.2 : 1.4, "data-name": line.name });
      if (line.style.dash) path.setAttribute("stroke-dasharray", line.style.dash);
      into.append(path);
    }
    if (!line.style.marker) return;
    // Markers are placed on samples, at a distance from each other and from those of other lines.
    let last = null;
    for (let at = 30 + i * 37; at < width; at += 148) {
      const nearest = line.indexUnder(this.x.at(at / width));
      if (nearest === null || nearest === last) continue;
      last = nearest;
      const x = line.xs[nearest], v = line.y(nearest);
      if (v === null || x < this.x.lo || x > this.x.hi || (this.row.log && v <= 0)) continue;
      into.append(draw("path", { class: "halo", d: markerPath(line.style.marker), fill: color, transform: `translate(${px(x).toFixed(1)} ${py(v).toFixed(1)})` }));
    }
  }

  /** Names the lines that lie completely above a clipped scale. */
  beyond(px) {
    for (const line of this.lines) {
      if (line.style.level) continue;
      const [from, to] = line.span(this.x);
      let least = Infinity;
      for (let i = from; i <= to; i++) if (line.y(i) !== null) least = Math.min(least, line.y(i));
      if (least > this.row.top && least < Infinity) {
        this.text(px(this.x.lo) + 6, MARGIN.top + 10, `▲ ${line.name} is above, at least ${this.row.format(least)}`, "start");
      }
    }
  }

  text(x, y, content, anchor) {
    const t = draw("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor });
    t.textContent = content;
    this.svg.append(t);
  }

  select(a, b) {
    if (!this.selection) return;
    this.selection.setAttribute("visibility", a === null ? "hidden" : "visible");
    if (a === null) return;
    const [l, r] = [this.px(a), this.px(b)];
    this.selection.setAttribute("x", Math.min(l, r).toFixed(1));
    this.selection.setAttribute("width", Math.abs(r - l).toFixed(1));
  }

  /** Returns the x of the nearest sample, whose values are shown; x itself for step lines and beyond
   * the run's end. */
  named(x) {
    for (const line of this.lines) {
      const i = line.step ? null : line.indexUnder(x);
      if (i !== null) return line.xs[i];
    }
    return x;
  }

  /** Moves the cursor to x and shows the values there; null removes it. */
  point(x) {
    if (!this.cross) return;
    // Without a cursor the key shows means; all charts need them when the page is printed.
    this.stale = !this.seen && x !== null;
    if (this.stale) return;
    const shown = x !== null && x >= this.x.lo && x <= this.x.hi;
    if (shown) x = this.named(x);
    this.cross.setAttribute("visibility", shown && x >= this.x.lo && x <= this.x.hi ? "visible" : "hidden");
    if (shown) {
      const at = this.px(x).toFixed(1);
      this.cross.setAttribute("x1", at);
      this.cross.setAttribute("x2", at);
    }
    const say = (e, text) => { if (e.textContent !== text) e.textContent = text; };
    say(this.where, shown ? this.x.format(x) : this.tag);
    this.lines.forEach((line, i) => {
      const v = shown ? line.under(x) : null;
      const dot = this.dots[i];
      const inside = v !== null && v <= this.row.top * 1.0001;
      dot.setAttribute("visibility", inside ? "visible" : "hidden");
      if (inside) {
        dot.setAttribute("cx", this.px(x).toFixed(1));
        dot.setAttribute("cy", this.py(v).toFixed(1));
      }
      say(this.values[i], shown
        ? (v === null ? "–" : this.row.format(line.told(x)))
        : (line.tag ?? (line.xs.length ? this.row.format(line.mean(this.x)) : "–")));
    });
  }
}

