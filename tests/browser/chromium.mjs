// Controls a headless Chromium over the DevTools protocol on a pipe, with Node's own modules only:
// no port, no network.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
];
const PATIENCE_MS = 60_000;

/** Starts Chromium, or the browser that the variable `CHROMIUM` names. */
export async function launch() {
  const profile = await mkdtemp(join(tmpdir(), "report-check-"));
  const program = process.env.CHROMIUM || "chromium";
  const child = spawn(program, [...FLAGS, `--user-data-dir=${profile}`, "about:blank"],
    { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
  let complaints = "";
  child.stderr.on("data", (d) => { complaints = (complaints + d).slice(-2000); });

  const waiting = new Map();
  const listeners = [];
  const giveUp = (error) => {
    for (const w of waiting.values()) w.reject(error);
    waiting.clear();
  };
  child.on("error", (e) => giveUp(new Error(`${program} does not start: ${e.message}`)));
  child.on("exit", (code) => giveUp(new Error(`${program} ended (${code}): ${complaints}`)));

  // Each message ends with a zero byte.
  let rest = Buffer.alloc(0);
  child.stdio[4].on("data", (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      const message = JSON.parse(rest.subarray(0, end).toString("utf8"));
      rest = rest.subarray(end + 1);
      const asked = waiting.get(message.id);
      if (asked) {
        waiting.delete(message.id);
        if (message.error) asked.reject(new Error(`${asked.method}: ${message.error.message}`));
        else asked.resolve(message.result);
      } else {
        for (const l of listeners) l(message);
      }
    }
  });
  child.stdio[3].on("error", () => {});

  let ids = 0;
  const send = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    const id = ++ids;
    const timer = setTimeout(() => {
      waiting.delete(id);
      reject(new Error(`${method}: no answer from the browser within ${PATIENCE_MS / 1000} s`));
    }, PATIENCE_MS);
    const settle = (f) => (v) => { clearTimeout(timer); f(v); };
    waiting.set(id, { method, resolve: settle(resolve), reject: settle(reject) });
    child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
  });

  return {
    /** Opens a new tab; `on(method, f)` subscribes to its events. */
    async page() {
      const { targetId } = await send("Target.createTarget", { url: "about:blank" });
      const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
      return {
        send: (method, params) => send(method, params, sessionId),
        on: (method, f) => listeners.push((m) => {
          if (m.sessionId === sessionId && m.method === method) f(m.params);
        }),
      };
    },
    async close() {
      const gone = new Promise((r) => (child.exitCode !== null ? r() : child.once("exit", r)));
      const stubborn = setTimeout(() => child.kill("SIGKILL"), 5000);
      await send("Browser.close").catch(() => child.kill());
      await gone;
      clearTimeout(stubborn);
      await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}
