// Opens a report in headless Chromium and checks everything that a reader relies on.
//
//   node tests/browser/check-report.mjs REPORT.html OUT_DIR
//
// Leaves screenshots in OUT_DIR; exits with 1, and prints a line for each fault, if there is one.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { resolve, join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";

const WIDTHS = [1280, 420];

const [report, out] = process.argv.slice(2);
if (!report || !out || process.argv.length > 4) {
  console.error("usage: check-report.mjs REPORT.html OUT_DIR");
  process.exit(2);
}
const url = pathToFileURL(resolve(report)).href;
await mkdir(out, { recursive: true });

const problems = [];
const wrong = (text) => problems.push(text);
const check = (good, text) => { if (!good) wrong(text); };

const browser = await launch();
try {
  await run(await browser.page());
} catch (e) {
  wrong(e.message);
} finally {
  await browser.close();
}
if (problems.length) {
  for (const p of problems) console.error(`${report}: ${p}`);
  process.exit(1);
}
console.log(`${report}: good; screenshots in ${out}`);

async function run(page) {
  page.on("Runtime.exceptionThrown", ({ exceptionDetails: d }) => wrong(`exception: ${d.exception?.description || d.text}`));
  page.on("Runtime.consoleAPICalled", ({ type, args }) => {
    if (["error", "warning", "assert"].includes(type)) wrong(`console ${type}: ${args.map((a) => a.value ?? a.description).join(" ")}`);
  });
  page.on("Log.entryAdded", ({ entry }) => {
    if (["error", "warning"].includes(entry.level)) wrong(`log ${entry.level}: ${entry.text}`);
  });
  page.on("Network.requestWillBeSent", ({ request }) => {
    if (!/^(file|data):/.test(request.url)) wrong(`asks the network for ${request.url}`);
    else if (request.url.startsWith("file:") && request.url.split("#")[0] !== url) wrong(`asks for another file, ${request.url}`);
  });
  for (const domain of ["Runtime", "Log", "Network", "Page"]) await page.send(`${domain}.enable`);

  const evaluate = async (f, ...args) => {
    const { result, exceptionDetails: d } = await page.send("Runtime.evaluate", {
      expression: `(${f})(...${JSON.stringify(args)})`, returnByValue: true, awaitPromise: true,
    });
    if (d) throw new Error(`in the page: ${d.exception?.description || d.text}`);
    return result.value;
  };
  const frame = () => evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true)))));
  const view = async (width, scheme = "light", media = "") => {
    await page.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
    await page.send("Emulation.setEmulatedMedia", { media, features: [{ name: "prefers-color-scheme", value: scheme }] });
    await frame();
  };
  const shot = async (name) => {
    const { cssContentSize: s } = await page.send("Page.getLayoutMetrics");
    const { data } = await page.send("Page.captureScreenshot", {
      captureBeyondViewport: true, clip: { x: 0, y: 0, width: s.width, height: Math.min(s.height, 9000), scale: 1 },
    });
    await writeFile(join(out, `${name}.png`), Buffer.from(data, "base64"));
  };
  const key = async (name) => {
    await page.send("Input.dispatchKeyEvent", { type: "keyDown", key: name, code: name });
    await page.send("Input.dispatchKeyEvent", { type: "keyUp", key: name, code: name });
    await frame();
  };
  const mouse = (type, x, y, more = {}) => page.send("Input.dispatchMouseEvent", { type, x, y, ...more });

  await view(WIDTHS[0]);
  const loaded = new Promise((r) => page.on("Page.loadEventFired", r));
  const { errorText } = await page.send("Page.navigate", { url });
  if (errorText) throw new Error(`does not open: ${errorText}`);
  await loaded;
  await frame();

  const text = await evaluate(() => ({
    title: document.title,
    h1: document.querySelector("h1")?.textContent,
    answer: [...document.querySelectorAll(".answer")].map((e) => e.textContent.trim()).join(" "),
    findings: document.querySelectorAll(".findings li, .ranked tbody tr, #answer .along circle").length,
    how: document.querySelector("#how pre")?.textContent || "",
  }));
  check(text.h1 && text.h1 === text.title, "the heading is not the title");
  check(text.answer.length > 10, "there is no headline");
  check(text.findings > 0, "the headline names no finding");
  check(text.how.length > 0, "the experiment's text is missing");

  const data = await evaluate(() => {
    const d = JSON.parse(document.getElementById("data").textContent);
    return d.groups.map((g) => ({
      label: g.label,
      cells: g.cells.map((c) => d.cells[c]).map((c) => ({
        samples: c.t.length, columns: c.columns.filter((k) => typeof k.v === "number" || k.v.some((v) => v !== null)).length, paths: c.latency.filter((l) => l.count).length,
        figures: c.figures.length, tracked: c.tracker !== null,
        rows: c.rows.length, blocks: new Set(c.rows.map((r) => r.block)).size, times: c.time.length,
        waits: c.columns.filter((k) => k.name === "waiting").map((k) => k.scope), untold: Boolean(c.untold),
        io: c.columns.some((k) => k.name === "kswapd_cpu" || /B\/s$/.test(k.unit)),
      })),
    }));
  });
  const tabs = await evaluate(() => [...document.querySelectorAll("[role=tab]")].map((t) => t.textContent));
  check(JSON.stringify(tabs) === JSON.stringify(data.map((g) => g.label)), `tabs ${tabs} instead of ${data.map((g) => g.label)}`);

  for (const [i, group] of data.entries()) {
    const box = await evaluate((n) => {
      window.scrollTo(0, 0);
      const r = document.querySelectorAll("[role=tab]")[n].getBoundingClientRect();
      document.querySelectorAll("[role=tab]")[n].scrollIntoView({ block: "center" });
      return r.width > 0;
    }, i);
    check(box, `tab ${group.label} is not visible`);
    const { x, y } = await evaluate((n) => {
      const r = document.querySelectorAll("[role=tab]")[n].getBoundingClientRect();
      return { x: r.x + r.width / 2, y: r.y + r.height / 2 };
    }, i);
    await mouse("mousePressed", x, y, { button: "left", clickCount: 1 });
    await mouse("mouseReleased", x, y, { button: "left", clickCount: 1 });
    await frame();
    const state = await evaluate(panelState);
    check(state.selected === group.label, `a click on ${group.label} shows ${state.selected}`);
    check(state.visible === 1, `${group.label}: ${state.visible} panels are visible`);
    for (const bad of state.bad) wrong(`${group.label}: ${bad}`);
    // If there are many policies the first four are drawn; a kind of wait that one of them never
    // had is drawn as 0.
    const drawn = group.cells.slice(0, group.cells.length > 4 ? 4 : undefined).filter((c) => c.samples > 1);
    const kinds = new Set(drawn.flatMap((c) => c.waits)).size;
    const series = drawn.reduce((n, c) => n + c.columns + (c.untold ? 0 : kinds - c.waits.length), 0);
    check(state.timeLines === series, `${group.label}: ${state.timeLines} lines drawn for ${series} columns`);
    if (group.cells.some((c) => c.paths)) check(state.families.includes("latency") && state.latencyLines > 0, `${group.label}: no latency is drawn`);
    if (group.cells.some((c) => c.figures)) check(state.counterRows > 0, `${group.label}: the counter table is empty`);
    const most = (f) => Math.max(...group.cells.map(f));
    check(state.rows === most((c) => c.rows), `${group.label}: ${state.rows} rows of ${most((c) => c.rows)} are shown`);
    check(state.blocks === most((c) => c.blocks), `${group.label}: ${state.blocks} headings over the rows`);
    const times = group.cells.reduce((n, c) => n + c.times, 0);
    check(state.bars.length === times, `${group.label}: ${state.bars.length} bars of time for ${times} classes`);
    for (const b of state.bars) check(Math.abs(b - 1) < 0.01, `${group.label}: the parts of a bar fill ${b} of it`);
    if (group.cells.some((c) => c.io && c.samples > 1)) check(state.io > 0, `${group.label}: kswapd CPU and block I/O are not drawn`);
    if (group.cells.some((c) => c.tracked)) check(state.families.includes("tracker"), `${group.label}: the page tracker is missing`);
    for (const width of WIDTHS) {
      await view(width);
      for (const o of await evaluate(overflow)) wrong(`${group.label} at ${width} px: ${o}`);
      await shot(`${width}-light-${i}-${group.label.replace(/[^a-z0-9]+/gi, "-")}`);
    }
    await view(WIDTHS[0]);
  }

  // Arrow keys move between tabs and wrap around.
  if (tabs.length > 1) {
    await evaluate(() => document.querySelector("[role=tab][aria-selected=true]").focus());
    await key("ArrowRight");
    const now = await evaluate(() => [document.querySelector("[role=tab][aria-selected=true]").textContent, document.activeElement.textContent]);
    check(now[0] === tabs[0] && now[1] === tabs[0], `ArrowRight on the last tab leads to ${now}`);
  }

  if (data.some((g) => g.cells.some((c) => c.samples > 1))) {
    await hover({ evaluate, frame, mouse, key });
    await smooth({ evaluate, frame, shot, view });
  }
  await counters({ evaluate, frame });

  await view(WIDTHS[0], "dark");
  await shot(`${WIDTHS[0]}-dark`);
  await view(WIDTHS[1], "dark");
  await shot(`${WIDTHS[1]}-dark`);
  await view(800, "light", "print");
  for (const o of await evaluate(overflow)) wrong(`in print: ${o}`);
  await shot("print");
  await view(WIDTHS[0]);
}

/** Checks the cursor, zooming by dragging, and zooming back out. */
async function hover({ evaluate, frame, mouse, key }) {
  const place = () => evaluate(() => {
    const svg = document.querySelector("[role=tabpanel]:not([hidden]) .plot > svg");
    svg.scrollIntoView({ block: "center" });
    const r = svg.getBoundingClientRect();
    return { x: r.x, y: r.y + r.height / 2, width: r.width };
  });
  const read = () => evaluate(() => {
    // Charts out of sight are not updated until they come into view, so only visible ones count.
    const time = [...document.querySelectorAll("[role=tabpanel]:not([hidden]) .family:not([data-family=latency]) figure")]
      .filter((f) => {
        const r = f.getBoundingClientRect();
        return r.bottom > 1 && r.top < innerHeight - 1;
      });
    return {
      at: [...new Set(time.map((f) => f.querySelector(".at").textContent))],
      values: time.flatMap((f) => [...f.querySelectorAll(".key b")].map((b) => b.textContent)),
      crosses: time.filter((f) => f.querySelector(".cross").getAttribute("visibility") === "visible").length,
      charts: time.length,
      moment: document.querySelector(".cursor output").textContent,
      reset: document.querySelector(".cursor button:last-child").disabled,
      labels: time[0].querySelector(".plot > svg").textContent,
    };
  });
  const box = await place();
  await frame();
  const before = await read();
  const inPlot = (share) => box.x + 54 + share * (box.width - 64);
  await mouse("mouseMoved", inPlot(0.25), box.y);
  await frame();
  const during = await read();
  check(during.at.length === 1 && / s$/.test(during.at[0]), `hovering shows the moments ${during.at}`);
  check(during.charts > 1 && during.crosses === during.charts, `${during.crosses} of ${during.charts} charts show the cursor`);
  check(during.values.every((v) => v !== ""), "hovering leaves values empty");
  check(during.values.join() !== before.values.join(), "hovering changes no value");
  check(during.moment === during.at[0], `the toolbar says ${during.moment}, the charts ${during.at}`);

  // The slider moves the same cursor, and charts further down show it when they are scrolled to.
  await mouse("mouseMoved", 2, 2);
  await evaluate(() => {
    const slider = document.querySelector(".cursor input");
    slider.value = 700;
    slider.dispatchEvent(new Event("input"));
    [...document.querySelectorAll("[role=tabpanel]:not([hidden]) .family:not([data-family=latency]) figure")].pop().scrollIntoView();
  });
  await frame();
  const below = await read();
  check(below.crosses > 0 && below.crosses === below.charts, `the slider shows the cursor in ${below.crosses} of ${below.charts} charts`);
  check(below.at.length === 1 && below.at[0] === below.moment, `scrolled to, charts show ${below.at} and the toolbar ${below.moment}`);
  await place();
  await frame();

  await mouse("mousePressed", inPlot(0.2), box.y, { button: "left", buttons: 1, clickCount: 1 });
  await mouse("mouseMoved", inPlot(0.3), box.y, { button: "left", buttons: 1 });
  await mouse("mouseMoved", inPlot(0.4), box.y, { button: "left", buttons: 1 });
  await mouse("mouseReleased", inPlot(0.4), box.y, { button: "left", clickCount: 1 });
  await frame();
  const zoomed = await read();
  check(zoomed.labels !== before.labels && !zoomed.reset, "dragging does not zoom");
  await key("Escape");
  const back = await read();
  check(back.labels === before.labels && back.reset, "Escape does not show the whole run again");
  await mouse("mouseMoved", 2, 2);
  await frame();
}

/** Checks smoothed charts beside raw ones: same scale, a stated window, and removal again. */
async function smooth({ evaluate, frame, shot, view }) {
  const toggle = () => evaluate(() => document.querySelector("#toolbar .scales button").click());
  const state = () => evaluate(() => {
    const rows = [...document.querySelectorAll("[role=tabpanel]:not([hidden]) .row.smooth")];
    const axis = (row) => [...row.querySelectorAll(".plot > svg text[text-anchor=end]")].map((t) => t.textContent).join();
    return {
      pressed: document.querySelector("#toolbar .scales button").getAttribute("aria-pressed"),
      rows: rows.length,
      said: rows.map((r) => r.querySelector("small").textContent),
      below: rows.every((r) => r.previousElementSibling?.querySelector("h4")?.firstChild.textContent === r.querySelector("h4").firstChild.textContent),
      scales: rows.every((r) => axis(r) === axis(r.previousElementSibling)),
      names: rows.every((r) => {
        const drawn = (e) => [...new Set([...e.querySelectorAll("path.data")].map((p) => p.dataset.name))].sort().join();
        return drawn(r) === drawn(r.previousElementSibling);
      }),
      timeless: document.querySelectorAll("[role=tabpanel]:not([hidden]) .family[data-family=latency] .row.smooth").length,
    };
  });
  const before = await state();
  check(before.pressed === "false" && before.rows === 0, "charts are smoothed before anybody asks");
  const source = await readFile(new URL("../../crates/lab/src/report/page/smooth.js", import.meta.url), "utf8");
  const { runningMean, windowOf } = new Function(`${source}; return { runningMean, windowOf };`)();
  const means = JSON.stringify([
    runningMean([0, 0, 10, 0, 0, 0, 0], 5), runningMean([1, null, 3, 5, null], 5), windowOf(50), windowOf(400), windowOf(1000),
  ]);
  check(means === "[[0,3.3333333333333335,2,2,2,0,0],[1,null,3,4,null],5,11,25]", `running means: ${means}`);
  const timed = await evaluate(() => !document.querySelector("#toolbar .scales").hidden);
  if (!timed) return;
  await toggle();
  await frame();
  const on = await state();
  check(on.pressed === "true" && on.rows > 0 && on.below, `${on.rows} smoothed rows stand under their raw ones`);
  check(on.said.every((s) => /^smoothed: mean of \d+ samples, [\d.]+ m?s/.test(s)), `a window is not stated: ${on.said}`);
  check(on.scales && on.names, "a smoothed row has another scale or other lines than the raw one");
  check(on.timeless === 0, "a histogram is smoothed");
  const after = await evaluate(panelState);
  for (const bad of after.bad) wrong(`smoothed: ${bad}`);
  for (const width of WIDTHS) {
    await view(width);
    for (const o of await evaluate(overflow)) wrong(`smoothed at ${width} px: ${o}`);
    await shot(`${width}-smoothed`);
  }
  await view(WIDTHS[0]);
  await toggle();
  await frame();
  check((await state()).rows === 0, "smoothed charts do not go away");
}

/** Checks sorting and filtering. */
async function counters({ evaluate, frame }) {
  const found = await evaluate(() => {
    const panel = document.querySelector("[role=tabpanel]:not([hidden])");
    const table = panel.querySelector("table.counters");
    if (!table) return null;
    const names = () => [...table.tBodies[0].rows].map((r) => r.cells[0].textContent);
    const given = names();
    const button = table.querySelector("thead button");
    button.click();
    const sorted = names();
    const said = button.parentElement.getAttribute("aria-sort");
    button.click();
    button.click();
    const again = names();
    const search = panel.querySelector("input[type=search]");
    search.value = given[0];
    search.dispatchEvent(new Event("input"));
    const filtered = names();
    search.value = "";
    search.dispatchEvent(new Event("input"));
    return { given, sorted, said, again, filtered };
  });
  if (!found) return;
  await frame();
  const expected = [...found.given].sort((a, b) => a.localeCompare(b));
  check(found.said === "ascending" && found.sorted.join() === expected.join(), "counters are not sorted by name after a click");
  check(found.again.join() === found.given.join(), "a third click does not bring back the given order");
  check(found.filtered.length > 0 && found.filtered.every((n) => n.includes(found.given[0])), "the filter does not filter");
}

// The functions below run in the page.

function panelState() {
  const panel = document.querySelector("[role=tabpanel]:not([hidden])");
  const bad = [];
  for (const figure of panel.querySelectorAll("figure")) {
    const svg = figure.querySelector(".plot > svg");
    const label = svg.getAttribute("aria-label") || "a chart without a label";
    const drawn = [...svg.querySelectorAll("path.data")].filter((p) => p.getAttribute("d").length > 8);
    if (!drawn.length) bad.push(`${label}: nothing is drawn`);
    if (/NaN|Infinity|undefined/.test(svg.innerHTML + figure.querySelector("figcaption").textContent)) bad.push(`${label}: not a number`);
    const box = svg.getBoundingClientRect();
    for (const t of svg.querySelectorAll("text")) {
      const r = t.getBoundingClientRect();
      if (r.left < box.left - 1 || r.right > box.right + 1) bad.push(`${label}: “${t.textContent}” is cut off`);
    }
    const labels = [...svg.querySelectorAll("text[text-anchor=middle]")].map((t) => t.getBoundingClientRect());
    for (let i = 1; i < labels.length; i++) {
      if (labels[i].left < labels[i - 1].right + 2) { bad.push(`${label}: labels of the axis overlap`); break; }
    }
  }
  for (const e of panel.querySelectorAll(".family")) {
    if (e.children.length < 2) bad.push(`${e.dataset.family}: an empty section`);
  }
  const lines = (where) => new Set([...panel.querySelectorAll(where)].flatMap((f) =>
    [...f.querySelectorAll("path.data")].map((p) => p))).size;
  const names = (family) => [...panel.querySelectorAll(".family")]
    .filter((f) => (f.dataset.family === "latency") === family)
    .flatMap((f) => [...f.querySelectorAll("figure")])
    .reduce((n, f) => n + new Set([...f.querySelectorAll("path.data")].map((p) => p.dataset.name)).size, 0);
  return {
    selected: document.querySelector("[role=tab][aria-selected=true]").textContent,
    visible: document.querySelectorAll("[role=tabpanel]:not([hidden])").length,
    families: [...panel.querySelectorAll(".family")].map((f) => f.dataset.family),
    // The lines of a row that is 0 throughout are a line of text, with their number.
    timeLines: names(false) + [...panel.querySelectorAll("[data-lines]")].reduce((n, e) => n + Number(e.dataset.lines), 0),
    latencyLines: names(true),
    paths: lines("figure"),
    rows: panel.querySelectorAll("table.rows tbody tr:not(.block)").length,
    blocks: panel.querySelectorAll("table.rows tr.block").length,
    bars: [...panel.querySelectorAll(".bar")].map((b) => {
      const all = b.getBoundingClientRect().width;
      return [...b.children].reduce((n, i) => n + i.getBoundingClientRect().width, 0) / all;
    }),
    io: panel.querySelectorAll(".family[data-family=reclaim-io] figure").length,
    counterRows: panel.querySelector("table.counters")?.tBodies[0].rows.length ?? 0,
    bad,
  };
}

function overflow() {
  const width = document.documentElement.clientWidth;
  const bad = [];
  if (document.documentElement.scrollWidth > width) bad.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const scrolls = (e) => {
    for (let p = e.parentElement; p; p = p.parentElement) {
      if (p.tagName === "svg" || ["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) return true;
    }
    return false;
  };
  for (const e of document.body.querySelectorAll("*")) {
    const r = e.getBoundingClientRect();
    if (r.width && r.right > width + 1 && !scrolls(e)) {
      bad.push(`${e.tagName.toLowerCase()}.${e.className.baseVal ?? e.className} ends at ${Math.round(r.right)} px`);
      if (bad.length > 5) break;
    }
  }
  return bad;
}
