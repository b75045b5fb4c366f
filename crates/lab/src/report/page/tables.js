// Tables of figures that are not drawn over time: counters, latency percentiles, page tracker.

/** Makes a table with a head; cells are strings or nodes, numbers are right-aligned. */
function dataTable(label, heads, rows, numeric) {
  const cell = (tag, content, i) => make(tag, numeric(i) ? { class: "num" } : {}, content);
  const head = make("tr", {}, ...heads.map((h, i) => {
    const th = cell("th", h, i);
    th.scope = "col";
    return th;
  }));
  const body = make("tbody", {}, ...rows.map((r) => make("tr", {}, ...r.map((c, i) => cell("td", c, i)))));
  const table = make("table", { class: "data-table" }, make("thead", {}, head), body);
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label }, table);
}

/** Makes the table of percentiles of every path, with policies below each other. */
function latencyTable(cells) {
  const paths = [...new Set(cells.flatMap((c) => c.latency.map((l) => l.path)))];
  const rows = [];
  for (const path of paths) {
    let first = true;
    for (const cell of cells) {
      const l = cell.latency.find((x) => x.path === path);
      const all = cell.latency.find((x) => x.path === "all") || l;
      const figures = !l ? ["not recorded", "", "", "", "", "", ""]
        : l.count === 0 ? ["0", "–", "–", "–", "–", "–", "–"]
        : [plain(l.count), (100 * l.count / all.count).toPrecision(3) + " %", ...[l.p50, l.p90, l.p99, l.p999, l.max].map(duration)];
      rows.push([first ? make("b", {}, path) : "", cell.policy, ...figures]);
      first = false;
    }
  }
  return dataTable("Allocation latency percentiles",
    ["path", data.compared, "allocations", "share", "p50", "p90", "p99", "p99.9", "max"], rows, (i) => i > 1);
}

/** Lists the slowest allocations; each opens to a timeline of the machine meanwhile. */
function slowestList(cells) {
  const box = make("div", { class: "slowest" });
  for (const cell of cells.filter((c) => c.slowest.length)) {
    box.append(make("p", {}, make("b", {}, cell.policy), ": the slowest allocations; open one for its timeline"));
    for (const s of cell.slowest) {
      const rows = s.timeline.map(([at, what]) => [(at < 0 ? "−" : "+") + duration(Math.abs(at)), what]);
      box.append(make("details", {},
        make("summary", {}, duration(s.ns) + "  " + s.what),
        dataTable("Timeline of an allocation", ["from its beginning", "what happened"], rows, (i) => i === 0)));
    }
  }
  return box;
}

/** Makes the table of waits by kind, with policies below each other. */
function waitsTable(cells) {
  const kinds = [...new Set(cells.flatMap((c) => c.waits.kinds.map((k) => k[0])))];
  const rows = kinds.flatMap((kind) => cells.map((cell, i) => {
    const k = cell.waits.kinds.find((x) => x[0] === kind);
    const figures = k ? [plain(k[1]), duration(k[2]), k[1] ? duration(k[2] / k[1]) : "–", plain(k[3])] : ["0", "–", "–", "–"];
    return [i ? "" : make("b", {}, kind), cell.policy, ...figures];
  }));
  return dataTable("Waits by kind", ["on", data.compared, "waits", "time of all", "mean", "most tasks at once"], rows, (i) => i > 1);
}

/** Lists the crowds of waiters that cost most; each opens to its members. */
function crowdList(cells) {
  const box = make("div", { class: "slowest" });
  for (const cell of cells.filter((c) => c.waits.crowds.length)) {
    box.append(make("p", {}, make("b", {}, cell.policy), ": the crowds that cost most time; open one for its members"));
    for (const c of cell.waits.crowds) {
      const rows = c.members.map(([task, on, since, between]) => [task, on, seconds(since / 1e9), plain(between)]);
      const where = cell.iterations > 1 ? `, iteration ${c.iteration}` : "";
      box.append(make("details", {},
        make("summary", {}, `${duration(c.lost)} in all, waiting for the ${c.object}, up to ${plain(c.most)} ${c.most === 1 ? "task" : "tasks"}, from ${seconds(c.since / 1e9)} on for ${duration(c.lasted)}${where}`),
        dataTable(`Members at ${seconds(c.most_at / 1e9)}`, ["task", "waits on", "since", "between"], rows, (i) => i > 1)));
    }
  }
  return box;
}

/** Makes the table of the page tracker's counts. */
function trackerTable(cells) {
  const keys = new Map();
  cells.forEach((cell, c) => {
    for (const [by, path, event, count] of cell.tracker || []) {
      const key = JSON.stringify([by, path, event]);
      if (!keys.has(key)) keys.set(key, { names: [by, path, event], counts: cells.map(() => null) });
      keys.get(key).counts[c] = count;
    }
  });
  const rows = [...keys.values()].map(({ names, counts }) =>
    [...names, ...counts.map((n, c) => (cells[c].tracker ? plain(n ?? 0) : "not tracked"))]);
  return dataTable("Page tracker", ["instantiated by", "later path", "event", ...cells.map((c) => c.policy)], rows, (i) => i > 2);
}

/** Makes the table of the rows of mm reports in their blocks, with policies side by side. Rows of a
 * recording that its kernel does not have are folded below it. */
function rowsTable(cells, name) {
  const of = cells.map((c) => new Map(c.rows.map((r) => [r.block + "\n" + r.label, r])));
  const keys = [...new Set(of.flatMap((m) => [...m.keys()]))];
  const table = make("table", { class: "data-table rows" });
  const head = make("tr", {}, ...["row", "unit"].map((h) => make("th", { scope: "col" }, h)),
    ...cells.map((c) => make("th", { scope: "col", class: "num", colspan: c.baseline ? 1 : 2 }, c.policy)));
  table.append(make("thead", {}, head));
  let body = null, block = null;
  const changeOf = (r) => {
    if (!r || r.value === null) return "";
    const text = r.change === null ? "–" : `${r.change.toFixed(2)} %`;
    if (!r.significant) return make("small", {}, `(${text})`);
    return make("span", { class: r.better === null ? "" : r.better ? "good" : "bad", title: "can be claimed" }, `*${text}*`);
  };
  const missing = data.measured ? keys.filter((key) => of.every((m) => m.get(key)?.unsupported)) : [];
  for (const key of keys.filter((k) => !missing.includes(k))) {
    const known = of.map((m) => m.get(key)).find((r) => r);
    const formula = of.map((m) => m.get(key)?.formula).find((f) => f) || "";
    if (known.block !== block) {
      block = known.block;
      body = make("tbody", {}, make("tr", { class: "block" },
        make("th", { scope: "rowgroup", colspan: 2 + cells.reduce((n, c) => n + (c.baseline ? 1 : 2), 0) }, block)));
      table.append(body);
    }
    const row = make("tr", {}, make("td", { title: formula }, known.label), make("td", {}, make("small", {}, known.unit)));
    cells.forEach((cell, i) => {
      const r = of[i].get(key);
      const value = !r || r.value === null
        ? make("small", { title: r?.unsupported || "no completed iteration has it" }, r?.unsupported ? "unsupported" : "–")
        : r.value.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
      row.append(make("td", { class: "num" }, value));
      if (!cell.baseline) row.append(make("td", { class: "num" }, changeOf(r)));
    });
    body.append(row);
  }
  const shown = make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Rows, ${name}` }, table);
  return missing.length ? make("div", {}, shown, foldedRows(missing.map((key) => of[0].get(key)))) : shown;
}

/** Folds rows that have no value, each with the reason. */
function foldedRows(rows) {
  return make("div", { class: "slowest" }, make("details", {},
    make("summary", {}, `${rows.length} unsupported ${rows.length === 1 ? "row" : "rows"}`),
    dataTable("Unsupported rows", ["row", "why"], rows.map((r) => [r.label, r.unsupported]), () => false)));
}

const TIME_COLORS = {
  "cpu user": "sky", "cpu system": "blue", "run queue": "purple", device: "green", throttle: "orange",
  lock: "black", server: "grey", sleep: "line", "direct reclaim": "red",
};

/** Separates the parts of a class's time from their sum. */
const partsOf = (t) => ({ parts: t.parts.slice(0, -1), sum: t.parts[t.parts.length - 1][1] });

/** Draws a bar for each policy and class: the parts of the lifetime side by side. */
function timeBars(cells) {
  const names = [...new Set(cells.flatMap((c) => c.time.flatMap((t) => partsOf(t).parts.map((p) => p[0]))))];
  const color = (name) => `var(--${TIME_COLORS[name] || "grey"})`;
  const box = make("div", { class: "bars" });
  const legend = make("p", { class: "legend" }, ...names.map((n) => make("span", {}, make("i", { style: `background:${color(n)}` }), n)));
  for (const cls of [...new Set(cells.flatMap((c) => c.time.map((t) => t.class)))]) {
    for (const cell of cells) {
      const t = cell.time.find((x) => x.class === cls);
      if (!t) continue;
      const { parts, sum } = partsOf(t);
      const bar = make("div", { class: "bar", role: "img", "aria-label": `${cls}, ${cell.policy}: ` + parts.filter((p) => p[1] > 0).map(([n, s]) => `${n} ${seconds(s)}`).join(", ") },
        ...parts.filter((p) => p[1] > 0 && sum > 0).map(([n, s]) =>
          make("i", { style: `width:${(100 * s / sum).toFixed(3)}%;background:${color(n)}`, title: `${n}: ${seconds(s)}, ${(100 * s / sum).toFixed(1)} %` })));
      box.append(make("div", {}, make("b", {}, cls), ` ${cell.policy}`), bar);
    }
  }
  return make("div", {}, legend, box);
}

/** Makes the table of the times that `timeBars` draws. */
function timeTable(cells) {
  const heads = cells.flatMap((c) => c.time)[0].parts.map((p) => p[0]);
  const rows = [];
  for (const cls of [...new Set(cells.flatMap((c) => c.time.map((t) => t.class)))]) {
    for (const cell of cells) {
      const t = cell.time.find((x) => x.class === cls);
      if (t) rows.push([make("b", {}, cls), cell.policy, trim(t.tasks.toFixed(2)), ...t.parts.map((p) => p[1].toFixed(2))]);
    }
  }
  return dataTable("Where time went", ["class", data.compared, "tasks", ...heads], rows, (i) => i > 1);
}

/** Makes the table of counters and metrics by policy: sorted by a click, filtered by typing. */
function figureTable(cells, name) {
  const base = cells.find((c) => c.baseline) || cells[0];
  const order = [...new Set(cells.flatMap((c) => c.figures.map((f) => f.name)))];
  const others = cells.filter((c) => c !== base);
  const of = cells.map((c) => new Map(c.figures.map((f) => [f.name, f])));
  const heads = ["counter", "unit", ...cells.map((c) => c.policy),
    ...others.map((c) => (others.length > 1 ? `change, ${c.policy}` : "change"))];
  const records = order.map((figure, at) => {
    const values = of.map((m) => m.get(figure));
    const b = of[cells.indexOf(base)].get(figure);
    const medians = values.map((f) => f?.median ?? null);
    const changes = others.map((c) => {
      const f = of[cells.indexOf(c)].get(figure);
      return { text: changeText(b?.median ?? null, f?.median ?? null), key: sortKey(b?.median, f?.median) };
    });
    const known = values.find((f) => f);
    return {
      at, figure, unit: known.unit, values, changes,
      keys: [figure, known.unit, ...medians, ...changes.map((c) => c.key)],
      zero: values.every((f) => !f || (f.min === 0 && f.max === 0)),
      differs: changes.some((c) => c.text !== "="),
    };
  });
  const table = make("table", { class: "data-table counters" });
  const body = make("tbody");
  const head = make("tr");
  const show = (f) => {
    if (!f || f.median === null) return make("small", { title: "the engine does not produce it" }, "unsupported");
    const span = make("span", {}, plain(f.median));
    if (f.min !== f.max) span.prepend(make("small", {}, `${plain(f.min)} … ${plain(f.max)}  `));
    return span;
  };
  for (const r of records) {
    r.row = make("tr", {}, make("td", { class: "code" }, r.figure), make("td", {}, make("small", {}, r.unit)),
      ...r.values.map((f) => make("td", { class: "num" }, show(f))),
      ...r.changes.map((c) => make("td", { class: "num" }, c.text)));
  }
  let sorted = null;
  heads.forEach((label, i) => {
    const button = make("button", { type: "button" }, label);
    const th = make("th", { scope: "col", class: i > 1 ? "num" : "", "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      // First click: largest first for numbers, A to Z for names; then the other way; then as given.
      const first = i > 1 ? "descending" : "ascending";
      const second = i > 1 ? "ascending" : "descending";
      const now = th.getAttribute("aria-sort");
      const next = now === "none" ? first : now === first ? second : "none";
      for (const other of head.children) other.setAttribute("aria-sort", "none");
      th.setAttribute("aria-sort", next);
      sorted = next === "none" ? null : { i, sign: next === "ascending" ? 1 : -1 };
      arrange();
    });
    head.append(th);
  });
  table.append(make("thead", {}, head), body);

  const search = make("input", { type: "search", placeholder: "Filter, such as pgscan", "aria-label": "Filter counters by name" });
  const box = (text, checked) => {
    const input = make("input", { type: "checkbox" });
    input.checked = checked;
    input.addEventListener("change", () => arrange());
    return [input, make("label", {}, input, ` ${text}`)];
  };
  const [zeros, zerosLabel] = box("show all-zero", false);
  const [differing, differingLabel] = box("only what differs", false);
  const count = make("output", { class: "muted" });
  search.addEventListener("input", () => arrange());

  function arrange() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = records.filter((r) =>
      words.every((w) => r.figure.toLowerCase().includes(w))
      && (zeros.checked || words.length > 0 || !r.zero) && (!differing.checked || r.differs));
    const list = [...shown];
    if (sorted) {
      const { i, sign } = sorted;
      list.sort((a, b) => {
        const [x, y] = [a.keys[i], b.keys[i]];
        if (x === null || y === null) return (x === null) - (y === null) || a.at - b.at;
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y) || a.at - b.at;
      });
    }
    body.replaceChildren(...list.map((r) => r.row));
    count.textContent = `${list.length} of ${records.length}`;
  }
  arrange();
  return make("div", {},
    make("div", { class: "filter" }, search, ...(others.length ? [differingLabel] : []), zerosLabel, count),
    make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Counters, ${name}` }, table));
}

/** Returns the key that sorts changes by ratio; a rise from zero comes above all. */
function sortKey(base, now) {
  if (base == null || now == null) return null;
  if (base === now) return 0;
  if (base === 0) return 1e9;
  return now / base - 1;
}

