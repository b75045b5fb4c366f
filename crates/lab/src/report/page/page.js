// The page: the tabs of groups, the toolbar, the keyboard.

const data = JSON.parse(document.getElementById("data").textContent);
const toolbar = document.getElementById("toolbar");
const container = document.getElementById("groups");
const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

let shown = null;

const tabs = data.groups.map((group, i) => {
  const tab = make("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-controls": `group-${i}`, "aria-selected": "false", tabindex: "-1" }, group.label);
  const panel = make("div", { role: "tabpanel", id: `group-${i}`, "aria-labelledby": `tab-${i}` });
  panel.hidden = true;
  container.append(panel);
  tab.addEventListener("click", () => show(i));
  return { tab, panel, group, axes: null };
});

const list = make("div", { role: "tablist", "aria-label": data.heading }, ...tabs.map((t) => t.tab));
list.addEventListener("keydown", (e) => {
  const n = tabs.length, now = tabs.indexOf(shown);
  const to = { ArrowRight: (now + 1) % n, ArrowLeft: (now + n - 1) % n, Home: 0, End: n - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  show(to);
  tabs[to].tab.focus();
});

// A slider moves the cursor without a mouse, and shows its place.
const slider = make("input", { type: "range", min: "0", max: "1000", value: "0", "aria-label": "Moment" });
const moment = make("output");
const closer = make("button", { type: "button", title: "Show the tenth of the run around the cursor" }, "Zoom in");
const reset = make("button", { type: "button", title: "Show the whole run (Escape, or a double click)" }, "Whole run");
const cursor = make("div", { class: "cursor", role: "group", "aria-label": "Time" }, "Moment", slider, moment, closer, reset);
// Smoothed charts are added to the raw ones, and never replace them.
const smoother = make("button", { type: "button", "aria-pressed": "false", title: "Show a running mean under each chart of a time series" }, "Smoothed beside raw");
const smoothBox = make("div", { class: "scales", role: "group", "aria-label": "Smoothing" }, smoother);
smoother.addEventListener("click", () => {
  smoothing.on = !smoothing.on;
  smoother.setAttribute("aria-pressed", smoothing.on);
  for (const t of tabs) {
    if (t.axes && t !== shown) t.axes = null; // built anew when it is shown
  }
  build(shown, shown.few);
  redraw();
  follow();
});
const time = () => shown?.axes?.find((a) => !a.log);
slider.addEventListener("input", () => time()?.point(time().at(slider.value / 1000)));
closer.addEventListener("click", () => {
  const x = time();
  if (!x) return;
  const center = x.cursor ?? x.at(slider.value / 1000), half = (x.hi - x.lo) / 20;
  x.zoom(Math.max(x.full[0], center - half), Math.min(x.full[1], center + half));
});
const resetAll = () => { for (const x of shown?.axes || []) x.reset(); };
reset.addEventListener("click", resetAll);
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !(e.target instanceof HTMLInputElement && e.target.type === "search")) resetAll();
});

function follow() {
  const x = time();
  cursor.hidden = !x;
  smoothBox.hidden = !x;
  if (!x) return;
  reset.disabled = !shown.axes.some((a) => a.zoomed);
  const said = x.cursor === null ? (x.zoomed ? `${seconds(x.lo)} – ${seconds(x.hi)}` : "–") : seconds(x.named);
  if (moment.textContent !== said) moment.textContent = said;
  if (x.cursor !== null && document.activeElement !== slider) slider.value = Math.round(1000 * x.share(x.cursor));
  slider.setAttribute("aria-valuetext", said);
}

function redraw() {
  for (const x of shown?.axes || []) x.redraw();
}

/** Builds a group; with many policies only charts of a few, and again when others are chosen. */
function build(tab, few) {
  const again = (now) => {
    build(tab, now);
    redraw();
    follow();
  };
  tab.few = few;
  tab.axes = buildGroup(tab.panel, tab.group, tab.group.cells.map((c) => data.cells[c]), few, again);
  for (const x of tab.axes) x.listeners.push(follow);
}

function show(i) {
  const next = tabs[i];
  if (next === shown) return;
  for (const t of tabs) {
    t.tab.setAttribute("aria-selected", t === next);
    t.tab.tabIndex = t === next ? 0 : -1;
    t.panel.hidden = t !== next;
  }
  shown = next;
  if (!next.axes) build(next);
  redraw();
  follow();
  try {
    if (started) history.replaceState(null, "", `#${slug(next.group.label)}`);
  } catch { /* a page that may not change its address still works */ }
}

let started = false;
if (tabs.length) {
  toolbar.append(list, smoothBox, cursor);
  const wanted = location.hash.slice(1);
  show(Math.max(0, tabs.findIndex((t) => slug(t.group.label) === wanted)));
  started = true;
  let width = container.clientWidth;
  new ResizeObserver(() => {
    if (container.clientWidth === width) return;
    width = container.clientWidth;
    redraw();
  }).observe(container);
  const print = (on) => () => { document.body.classList.toggle("printing", on); redraw(); };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
} else {
  // A page of stored runs that are compared has no section of runs.
  container?.append(make("p", { class: "missing" }, "No cell of the experiment has finished."));
}
