// The sections of one filesystem (or other combination of axes), in their order.

// A column belongs to the first family that takes it; the others are drawn by name at the end.
const FAMILIES = [
  {
    id: "free", title: "Free pages against the watermarks",
    hint: "kswapd is woken when free pages fall below low and sleeps again above high; below min, allocations reclaim for themselves. “Near watermarks” cuts the scale at three times high.",
    takes: (c) => /^(nr_)?(free|free_pages|min|low|high|boost)$/.test(c.name), by: "scope",
    scales: [["focus", "near watermarks"], ["all", "all"], ["log", "log"]],
  },
  {
    id: "dirty", title: "Dirty and writeback pages against the limits",
    hint: "In a zone with more dirty pages than its share, reclaim finds dirty pages sooner or later.",
    takes: (c) => c.unit === "pages" && /dirty|writeback|unstable|background/.test(c.name), by: "scope",
    scales: [["all", "linear"], ["log", "log"]],
  },
  {
    id: "lru", title: "LRU lists",
    takes: (c) => /^(nr_)?((in)?active_(file|anon)|unevictable|isolated(_file|_anon)?)$/.test(c.name), by: "scope",
    scales: [["all", "linear"], ["log", "log"]],
  },
  {
    id: "reclaim-io", title: "kswapd CPU and block I/O",
    hint: "CPU use of kswapd (1 is a whole CPU; with several nodes the sum of their kswapds), above the activity of the disks at the same time.",
    takes: (c) => c.name === "kswapd_cpu" || /B\/s$/.test(c.unit), by: "unit",
    titles: { share: "kswapd CPU" }, title_else: "Block I/O",
  },
  {
    id: "activity", title: "kswapd and flusher",
    hint: "Share of each sampling interval that the thread was running or had work under way.",
    takes: (c) => c.unit === "share", by: "together", ceiling: 1,
  },
  { id: "queue", title: "Device queue", takes: (c) => /queue|in_?flight/.test(c.name), by: "scope" },
];

// The name of the columns that count waiting tasks; each counts one kind of wait.
const WAITING = "waiting";

/** Draws waiting tasks by kind as a stack, and lists waits and crowds of waiters. */
function waitsSection(into, cells, x, columns, every) {
  if (!columns.size && !every.some((c) => c.waits.kinds.length)) return;
  const box = familyBox(into, {
    id: "waits", title: "Tasks and what they wait on",
    hint: "Waiting tasks by kind of object, at each sample of the first iteration. Below: all waits of all iterations; and the crowds, the tasks that waited for one object without a break, directly or through other tasks, ranked by the sum of their waits. Each crowd opens to its members at the moment of the greatest number; the last member held the object.",
  });
  columnHeads(box, cells);
  const kinds = [...new Set([...columns].map((c) => c.scope))];
  if (kinds.length) {
    chartRow(box, x, new Row({ unit: "tasks" }), cells, { title: "Waiting", small: "tasks", label: "Waiting tasks", height: 150 }, (cell) => {
      const lines = [];
      let base = null;
      for (const [i, kind] of kinds.entries()) {
        const c = cell.columns.find((c) => columns.has(c) && c.scope === kind);
        // A kind that no sample has lacks its column, and is 0; a real kernel reports no kind.
        if (!c && (cell.untold || !cell.t.length)) continue;
        const own = Array.isArray(c?.v) ? c.v : cell.t.map(() => c?.v ?? 0);
        const style = { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length], area: true };
        const line = new Line(kind, style, cell.t, own.map((v, at) => v + (base ? base.ys[at] : 0)), { own, base });
        lines.push(line);
        base = line;
      }
      return lines;
    });
  }
  box.append(waitsTable(every), crowdList(every));
}

/** Draws a row of charts, one for each policy, with one scale; with smoothing the same row again
 * below, with the same scale. */
function chartRow(into, x, row, cells, what, linesOf) {
  drawRow(into, x, row, cells, what, linesOf);
  const all = cells.map(linesOf);
  if (!smoothing.on || x.log || !all.some((lines) => lines.some((line) => !line.constant && !line.zero && !line.empty))) return;
  const said = { ...what, small: windowText(cells), label: `${what.label}, smoothed`, smooth: true };
  drawRow(into, x, row, cells, said, (cell) => smoothed(all[cells.indexOf(cell)]));
}

function drawRow(into, x, row, cells, { title, small, label, height, tag, smooth }, linesOf) {
  const all = cells.map(linesOf);
  const zero = all.every((lines) => lines.length && lines.every((line) => line.zero));
  const charts = zero ? make("div", { class: "empty", "data-lines": all.flat().length }, "0 in every sample") : columnsOf(cells);
  into.append(make("div", { class: smooth ? "row smooth" : "row" },
    make("h4", {}, ...breakable(title), ...(small ? [make("small", {}, small)] : [])), charts));
  if (zero) return;
  for (const [i, cell] of cells.entries()) {
    const lines = all[i];
    if (lines.every((line) => line.empty)) {
      const why = lines.some((line) => line.xs.length) ? "recorded, but without any value" : "not recorded";
      charts.append(make("div", { class: "empty" }, `${cell.policy}: ${why}`));
      continue;
    }
    const end = cell.t.length && !x.log ? cell.t[cell.t.length - 1] : null;
    charts.append(new Chart(row, x, lines, { policy: cell.policy, label, height, tag, end }).figure);
  }
}

// Most charts that fit beside each other.
const ABREAST = 4;

/** Makes the box of a row's charts: one column for each policy, or several lines of equal length. */
function columnsOf(cells) {
  const lines = Math.ceil(cells.length / ABREAST);
  const box = make("div", { class: lines > 1 ? "charts many" : "charts" });
  box.style.setProperty("--columns", Math.ceil(cells.length / lines));
  return box;
}

function familyBox(into, family) {
  const box = make("section", { class: "family", "data-family": family.id });
  const words = make("div", {}, make("h3", {}, family.title));
  if (family.hint) words.append(make("p", { class: "hint" }, family.hint));
  box.append(make("header", {}, words));
  into.append(box);
  return box;
}

/** Adds the policies' names above the columns; if columns are stacked, every chart has its own. */
function columnHeads(box, cells) {
  if (cells.length > ABREAST) return;
  const heads = columnsOf(cells);
  heads.append(...cells.map((c) => make("span", {}, c.policy)));
  box.append(make("div", { class: "row heads", "aria-hidden": "true" }, make("div"), heads));
}

/** Returns the parts of a name with possible line breaks after underscores and slashes. */
function breakable(name) {
  return name.split(/(?<=[_/])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));
}

/** Adds buttons that change the vertical scale of a family's rows. */
function scaleButtons(box, scales, rows, x) {
  const group = make("div", { class: "scales", role: "group", "aria-label": "Vertical scale" });
  scales.forEach(([scale, text], i) => {
    const button = make("button", { type: "button", "aria-pressed": i === 0 }, text);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", other === button);
      for (const row of rows) row.scale = scale;
      x.redraw();
    });
    group.append(button);
  });
  box.querySelector("header").append(group);
}

/** Returns lines of a cell's columns; the scope is added to names that occur more than once. */
function columnLines(cell, columns) {
  const many = new Set(columns.map((c) => c.name).filter((n, i, all) => all.indexOf(n) !== i));
  return columns.map((c, i) => {
    const style = many.has(c.name) ? { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length] } : styleOf(c.name, i);
    return new Line(many.has(c.name) ? `${c.name} ${c.scope}` : c.name, style, cell.t, c.v);
  });
}

/** Draws all time series of one group. */
function seriesSections(into, cells, x, all) {
  const left = new Set(cells.flatMap((c) => c.columns));
  const take = (test) => {
    const taken = new Set([...left].filter(test));
    for (const c of taken) left.delete(c);
    return taken;
  };
  waitsSection(into, cells, x, take((c) => c.name === WAITING), all);
  const missing = [];
  for (const family of FAMILIES) {
    const taken = take(family.takes);
    if (!taken.size) {
      missing.push(family.title);
      continue;
    }
    const box = familyBox(into, family);
    columnHeads(box, cells);
    const keyOf = family.by === "scope" ? (c) => JSON.stringify([c.scope, c.unit]) : (c) => c.unit;
    const rows = [];
    for (const key of new Set([...taken].map(keyOf))) {
      const sample = [...taken].find((c) => keyOf(c) === key);
      const title = family.by === "scope" ? sample.scope : family.by === "unit" ? family.titles[sample.unit] || family.title_else : "Busy";
      const row = new Row({ unit: sample.unit, scale: family.scales?.[0][0] || "all", ceiling: family.ceiling ?? null });
      rows.push(row);
      chartRow(box, x, row, cells,
        { title, small: sample.unit === "share" ? "share of time" : sample.unit, label: `${family.title}, ${title}` },
        (cell) => columnLines(cell, cell.columns.filter((c) => taken.has(c) && keyOf(c) === key)));
    }
    if (family.scales) scaleButtons(box, family.scales, rows, x);
  }
  if (missing.length) into.append(make("p", { class: "missing" }, `Not recorded here: ${missing.join("; ")}.`));
  if (!left.size) return;
  const box = familyBox(into, { id: "more", title: "Further series" });
  columnHeads(box, cells);
  for (const key of new Set([...left].map((c) => JSON.stringify([c.name, c.unit])))) {
    const [name, unit] = JSON.parse(key);
    const row = new Row({ unit });
    chartRow(box, x, row, cells, { title: name, small: unit, label: name },
      (cell) => cell.columns.filter((c) => left.has(c) && c.name === name && c.unit === unit)
        .map((c, i) => new Line(c.scope, { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length] }, cell.t, c.v)));
  }
}

const PATH_STYLE = (path, i) => path === "all"
  ? { color: "black", dash: "1 2.5" }
  : { color: COLORS[i % COLORS.length], marker: MARKERS[i % MARKERS.length] };

const PER_DECADE = 12;

/** Returns the number of allocations in each twelfth of a decade as a step line. */
function histogramLine(l, i) {
  const bins = new Map();
  for (const [upper, count] of l.buckets) {
    const bin = Math.floor(Math.log10(Math.max(upper, 1)) * PER_DECADE + 1e-9);
    bins.set(bin, (bins.get(bin) || 0) + count);
  }
  const xs = [], ys = [];
  const used = [...bins.keys()].sort((a, b) => a - b);
  for (let bin = used[0] ?? 0; used.length && bin <= used[used.length - 1] + 1; bin++) {
    xs.push(10 ** (bin / PER_DECADE));
    ys.push(bins.get(bin) || 0);
  }
  const style = { ...PATH_STYLE(l.path, i), area: true };
  return new Line(l.path, style, xs, ys, { step: true, tag: short(l.count) });
}

/** Returns the share of allocations that were slower than x as a step line. */
function slowerLine(l, i) {
  const xs = [], ys = [];
  let left = l.count;
  for (const [upper, count] of l.buckets) {
    if (!xs.length) { xs.push(Math.max(1, upper * 0.94)); ys.push(1); }
    left -= count;
    xs.push(Math.max(1, upper));
    ys.push(left / l.count);
  }
  return new Line(l.path, PATH_STYLE(l.path, i), xs, ys, { step: true, tag: l.count ? duration(l.p99) : "–" });
}

function latencySection(into, cells, few) {
  const box = familyBox(into, {
    id: "latency", title: "Allocation latency",
    hint: "Every page allocation of the workload over all iterations, by path. Above: the number of allocations by latency. Below: the share of allocations slower than a latency; the further left a line falls, the better.",
  });
  const uppers = cells.flatMap((c) => c.latency.flatMap((l) => l.buckets.map((b) => b[0])));
  if (!uppers.length) {
    box.append(make("p", { class: "missing" }, "Not recorded: no allocation was timed."));
    return null;
  }
  columnHeads(box, few);
  const extreme = (f) => uppers.reduce((a, b) => f(a, b));
  const x = new SharedX(Math.max(1, extreme(Math.min) / 1.6), extreme(Math.max) * 1.6,
    { log: true, format: duration, tickLabel: duration });
  const total = Math.max(...cells.flatMap((c) => c.latency.map((l) => l.count)));
  const paths = [...new Set(cells.flatMap((c) => c.latency.map((l) => l.path)))];
  const linesOf = (make) => (cell) => cell.latency.map((l) => make(l, paths.indexOf(l.path)));
  chartRow(box, x, new Row({ scale: "log", floor: 0.7 }), few,
    { title: "How many", small: "allocations", label: "Allocation latency histogram", height: 150, tag: "total" },
    (cell) => cell.latency.filter((l) => l.path !== "all").map((l) => histogramLine(l, paths.indexOf(l.path))));
  chartRow(box, x, new Row({ scale: "log", floor: 10 ** Math.floor(Math.log10(0.5 / total)), ceiling: 1, format: oneIn }), few,
    { title: "Slower than", small: "share of the path", label: "Share of allocations slower than a time", height: 150, tag: "p99" },
    linesOf(slowerLine));
  box.append(latencyTable(cells));
  if (cells.some((c) => c.slowest.length)) box.append(slowestList(cells));
  return x;
}

/** Makes the choice of policies with charts, if there are more than fit beside each other. */
function chooser(cells, few, again) {
  const boxes = cells.map((cell) => {
    const box = make("input", { type: "checkbox" });
    box.checked = few.includes(cell);
    box.addEventListener("change", () => {
      const now = cells.filter((c, i) => boxes[i].checked);
      if (now.length) again(now); else box.checked = true;
    });
    return box;
  });
  return make("fieldset", { class: "chooser" }, make("legend", {}, "Charts of"),
    ...cells.map((cell, i) => make("label", {}, boxes[i], ` ${cell.policy}`)));
}

/** Builds all sections of one group; returns its axes, time first. `few` cells have charts, tables
 * have all. */
function buildGroup(into, group, cells, few = cells.slice(0, ABREAST), again = null) {
  into.replaceChildren();
  if (cells.length > ABREAST && again) into.append(chooser(cells, few, again));
  const sampled = few.filter((c) => c.t.length > 1);
  let time = null;
  if (sampled.length) {
    const starts = sampled.map((c) => c.t[0]), ends = sampled.map((c) => c.t[c.t.length - 1]);
    time = new SharedX(Math.min(0, ...starts), Math.max(...ends), { unit: " s", tickLabel: (v) => trim(v.toFixed(3)) });
    seriesSections(into, few, time, cells);
  } else {
    into.append(make("p", { class: "missing" }, "No time series was recorded; set a sampling interval to see the course of the runs."));
  }
  const latency = latencySection(into, cells, few);
  if (cells.some((c) => c.tracker)) {
    const box = familyBox(into, {
      id: "tracker", title: "Page tracker",
      hint: "Paths that brought pages into the cache, and the later paths that dirtied or activated the pages.",
    });
    box.append(trackerTable(cells));
  }
  if (cells.some((c) => c.rows.length)) {
    const box = familyBox(into, {
      id: "rows", title: "Rows of mm reports",
      hint: "Means over the iterations. In brackets 100 (new − base) / new as in the reports of 2011, positive where better; stars where the difference can be claimed (Mann–Whitney U, p < 0.05). Point at a row for its formula; lowmark explain says what it means.",
    });
    box.append(rowsTable(cells, group.label));
  }
  if (cells.some((c) => c.time.length)) {
    const box = familyBox(into, {
      id: "time", title: "Where time went",
      hint: "Seconds summed over the tasks of a class, means over the iterations. The parts add up to the tasks’ lifetime; direct reclaim is all time in it, the other parts are outside of it.",
    });
    box.append(timeBars(cells), timeTable(cells));
  }
  const box = familyBox(into, {
    id: "counters", title: "Counters and metrics",
    hint: "Median over the iterations; smallest and largest before it where they differ. The change is that of the median against the baseline.",
  });
  box.append(cells.some((c) => c.figures.length)
    ? figureTable(cells, group.label)
    : make("p", { class: "missing" }, "No counters were stored."));
  return [time, latency].filter(Boolean);
}

