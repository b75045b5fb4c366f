// Smoothed charts beside the raw ones, as in reports of 2011: every sample becomes the mean of a
// window of samples around it. The window is stated, and gaps stay gaps.

const smoothing = { on: false };

/** Returns the number of samples in a window: a fortieth of the run, at least five, and odd, so
 * that the window has a middle. */
const windowOf = (n) => Math.max(5, 2 * Math.floor(n / 80) + 1);

/** Returns the running mean of `ys` over `n` samples. Near the ends the window is cut equally at
 * both sides. */
function runningMean(ys, n) {
  const sums = [0], counts = [0];
  for (const v of ys) {
    sums.push(sums[sums.length - 1] + (v ?? 0));
    counts.push(counts[counts.length - 1] + (v === null ? 0 : 1));
  }
  return ys.map((v, i) => {
    if (v === null) return null;
    const half = Math.min((n - 1) / 2, i, ys.length - 1 - i);
    const [from, to] = [i - half, i + half + 1];
    return (sums[to] - sums[from]) / (counts[to] - counts[from]);
  });
}

/** Replaces the values of lines by running means; constant lines are kept. */
function smoothed(lines) {
  const made = new Map();
  return lines.map((line) => {
    if (line.constant) return line;
    const n = windowOf(line.xs.length);
    const own = line.own && runningMean(line.own, n);
    const more = { own, base: line.base && made.get(line.base) };
    const now = new Line(line.name, line.style, line.xs, runningMean(line.ys, n), more);
    made.set(line, now);
    return now;
  });
}

/** Describes the window of a row of smoothed charts. */
function windowText(cells) {
  const said = cells.filter((c) => c.t.length > 1).map(({ t }) => {
    const n = windowOf(t.length);
    return `mean of ${n} samples, ${seconds((n * (t[t.length - 1] - t[0])) / (t.length - 1))}`;
  });
  return `smoothed: ${[...new Set(said)].join("; ")}`;
}
