// Only in a report with a real kernel that tells nobody what its tasks wait on: stands in the place of the
// table of the same name, in which a kind of wait that a policy did not meet is 0.

/** Waits by kind, policies under each other. */
function waitsTable(cells) {
  const kinds = [...new Set(cells.flatMap((c) => c.waits.kinds.map((k) => k[0])))];
  const figures = (cell, k) => {
    if (cell.untold) return ["unsupported", "", "", ""];
    return k ? [plain(k[1]), duration(k[2]), k[1] ? duration(k[2] / k[1]) : "–", plain(k[3])] : ["0", "–", "–", "–"];
  };
  const rows = kinds.flatMap((kind) => cells.map((cell, i) =>
    [i ? "" : make("b", {}, kind), cell.policy, ...figures(cell, cell.waits.kinds.find((x) => x[0] === kind))]));
  return dataTable("Waits by kind", ["on", data.compared, "waits", "time of all", "mean", "most tasks at a time"], rows, (i) => i > 1);
}
