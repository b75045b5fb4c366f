// Tables of what is not drawn over time: counters, latency percentiles, the page tracker.

/** A table with a head; cells are strings or nodes, numbers stand right. */
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

/** Percentiles of every path, policies under each other. */
function latencyTable(cells) {
  const paths = [...new Set(cells.flatMap((c) => c.latency.map((l) => l.path)))];
  const rows = [];
  for (const path of paths) {
    let first = true;
    for (const cell of cells) {
      const l = cell.latency.find((x) => x.path === path);
      const all = cell.latency.find((x) => x.path === "all") || l;
      const figures = !l ? ["not recorded", "", "", "", "", ""]
        : l.count === 0 ? ["0", "–", "–", "–", "–", "–"]
        : [plain(l.count), (100 * l.count / all.count).toPrecision(3) + " %", ...[l.p50, l.p99, l.p999, l.max].map(duration)];
      rows.push([first ? make("b", {}, path) : "", cell.policy, ...figures]);
      first = false;
    }
  }
  return dataTable("Allocation latency percentiles",
    ["path", "policy", "allocations", "share", "p50", "p99", "p99.9", "max"], rows, (i) => i > 1);
}

/** What the page tracker counted. */
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

/** Counters and metrics, policy against policy: sorted by a click, filtered by typing. */
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

/** Order of changes: by ratio, what rises from zero above all. */
function sortKey(base, now) {
  if (base == null || now == null) return null;
  if (base === now) return 0;
  if (base === 0) return 1e9;
  return now / base - 1;
}

