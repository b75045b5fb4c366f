// Checks pages with axe-core for faults that hinder readers who do not see them as drawn.
//
//   node tests/browser/axe.mjs AXE PAGE.html...
//
// AXE is axe.min.js of npm's axe-core, which is no part of this project. Each page is checked 390
// and 1400 pixels wide, light and dark; the exit code is 1, with a line for each fault, if axe
// finds faults that it calls serious or critical.

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";

const [axe, ...pages] = process.argv.slice(2);
if (!pages.length) {
  console.error("usage: axe.mjs AXE PAGE.html...");
  process.exit(2);
}
const source = await readFile(axe, "utf8");
let found = 0;

const browser = await launch();
try {
  for (const file of pages) for (const width of [390, 1400]) for (const scheme of ["light", "dark"]) {
    await look(await browser.page(), file, width, scheme);
  }
} finally {
  await browser.close();
}
if (found) process.exit(1);
console.log(`${pages.length} pages: nothing serious`);

async function look(page, file, width, scheme) {
  const loaded = new Promise((r) => page.on("Page.loadEventFired", r));
  await page.send("Page.enable");
  await page.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
  await page.send("Emulation.setEmulatedMedia", { media: "", features: [{ name: "prefers-color-scheme", value: scheme }] });
  await page.send("Page.navigate", { url: pathToFileURL(resolve(file)).href });
  await loaded;
  const evaluate = async (expression) => {
    const { result, exceptionDetails: d } = await page.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (d) throw new Error(`in the page: ${d.exception?.description || d.text}`);
    return result.value;
  };
  await evaluate(`${source}; 0`);
  const { violations } = await evaluate("axe.run()");
  for (const v of violations.filter((v) => ["serious", "critical"].includes(v.impact))) {
    found += 1;
    console.error(`${file}, ${width} px, ${scheme}: ${v.impact} ${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 120)}`);
  }
  const wide = await evaluate("document.documentElement.scrollWidth");
  if (wide > width) {
    found += 1;
    console.error(`${file}, ${width} px, ${scheme}: the page is ${wide} px wide`);
  }
}
