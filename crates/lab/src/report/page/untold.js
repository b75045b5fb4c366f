// Included only in reports with a real kernel that does not report what its tasks wait on. Replaces
// the function of the same name, which shows 0 for a kind of wait that a policy did not have.

/** Returns a table of waits by kind, with policies below each other. */
function waitsTable(cells) {
  const kinds = [...new Set(cells.flatMap((c) => c.waits.kinds.map((k) => k[0])))];
  const figures = (cell, k) => {
    if (cell.untold) return ["unsupported", "", "", ""];
    return k ? [plain(k[1]), duration(k[2]), k[1] ? duration(k[2] / k[1]) : "–", plain(k[3])] : ["0", "–", "–", "–"];
  };
  const rows = kinds.flatMap((kind) => cells.map((cell, i) =>
    [i ? "" : make("b", {}, kind), cell.policy, ...figures(cell, cell.waits.kinds.find((x) => x[0] === kind))]));
  return dataTable("Waits by kind", ["on", data.compared, "waits", "time of all", "mean", "most tasks at once"], rows, (i) => i > 1);
}
