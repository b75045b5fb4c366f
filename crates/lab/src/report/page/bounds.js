// For estimates from a sample: draws the range of possible values as a band behind a curve.

const lineAlone = Chart.prototype.line;

Chart.prototype.line = function (into, line, i, px, py, width) {
  const panel = data.panels.find((p) => p.title === this.label);
  const bounds = panel.lines[i].bounds || [];
  const edge = (end) => bounds.map((b, at) => [px(line.xs[at]), py(b[end])]);
  if (bounds.length > 1) {
    const d = `${pathOf(edge(0))}L${pathOf(edge(1).reverse()).slice(1)}Z`;
    into.append(draw("path", { class: "area", d, fill: `var(--${line.style.color})` }));
  }
  lineAlone.call(this, into, line, i, px, py, width);
};
