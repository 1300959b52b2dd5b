// Roofline, graph, memory plan, tuning: drawn with D3 and Observable Plot.
"use strict";
(() => {
  const { h, s, time, percent, widgets } = TW;
  const wide = () => Math.max(480, Math.min(1200, document.getElementById("main").clientWidth - 45));
  const base = { style: { background: "transparent", fontSize: "12px" } };

  // -- roofline

  widgets.roofline = (place, { roofline }) => {
    const measured = roofline.points.filter((p) => p.seconds && p.bytes && p.flops);
    const points = (measured.length ? measured : roofline.points.filter((p) => p.bytes && p.flops)).map((p) => ({
      ...p, intensity: p.flops / p.bytes, y: measured.length ? p.flops / p.seconds / 1e9 : p.flops / 1e9,
    }));
    if (!points.length) {
      place.append(h("p", { class: "soft" }, "No kernel has both operations and bytes that could be counted."));
      return;
    }
    const low = Math.min(0.1, d3.min(points, (p) => p.intensity) / 2);
    const high = Math.max(100, d3.max(points, (p) => p.intensity) * 2);
    const lines = [];
    const labels = [], top = [];
    if (roofline.peak && measured.length) {
      const peak = roofline.peak / 1e9;
      for (const [name, rate] of roofline.roofs) {
        const knee = roofline.peak / rate;
        lines.push({ name, intensity: low, y: low * rate / 1e9 }, { name, intensity: Math.min(knee, high), y: Math.min(peak, high * rate / 1e9) });
        const along = Math.cbrt(low * Math.min(knee, high) ** 2);  // two thirds, where there is room to its left
        labels.push({ intensity: along, y: along * rate / 1e9, text: `${name}, ${(rate / 1e9).toFixed(0)} GB/s` });
      }
      lines.push({ name: "peak", intensity: low, y: peak }, { name: "peak", intensity: high, y: peak });
      top.push({ intensity: high, y: peak, text: `peak, ${peak.toFixed(0)} GFLOP/s` });
    }
    const halo = { fill: "currentColor", stroke: "var(--ground)", strokeWidth: 4 };  // over dots
    const heights = [...points, ...lines].map((p) => p.y);
    const floor = d3.min(heights) / 1.6, ceiling = d3.max(heights) * 1.6;
    const title = (p) => [`${p.name}: ${p.title}`, measured.length ? `${time(p.seconds)}, ${percent(p.share)} of the time` : "not measured",
      `${(p.flops / 1e9).toPrecision(3)} GFLOP, ${(p.bytes / 1e6).toPrecision(3)} MB`,
      p.binds ? `bound by ${p.binds}, ${percent(p.of_limit || 0)} of the limit` : ""].filter(Boolean).join("\n");
    place.append(Plot.plot({
      ...base, width: wide(), height: 420, marginLeft: 60, marginTop: 25, marginBottom: 40,
      ariaLabel: "Roofline", ariaDescription: "Operations a byte against rate, both logarithmic; the table below has the same figures",
      x: { type: "log", label: "operations a byte", tickFormat: "~g", domain: [low, high], grid: true },
      y: { type: "log", label: measured.length ? "GFLOP/s" : "GFLOP", tickFormat: "~g", grid: true, domain: [floor, ceiling] },
      r: { range: [3, 16] },
      color: { domain: ["compute", "memory", ""], range: ["var(--compute)", "var(--bytes)", "var(--soft)"] },
      marks: [
        Plot.line(lines, { x: "intensity", y: "y", z: "name", strokeWidth: 1.5 }),
        Plot.dot(points, {
          x: "intensity", y: "y", r: (p) => Math.max(p.share, 1e-4), fill: "binds", fillOpacity: 0.75, stroke: "currentColor",
          strokeWidth: 0.75, href: (p) => `#kernel-${p.kernel}`, ariaLabel: (p) => title(p).replaceAll("\n", ", "), target: "_self",
        }),
        Plot.text(labels.slice(0, 1), { x: "intensity", y: "y", text: "text", dy: -8, dx: -8, textAnchor: "end", ...halo }),
        Plot.text(labels.slice(1), { x: "intensity", y: "y", text: "text", dy: 8, dx: 8, textAnchor: "start", ...halo }),
        Plot.text(top, { x: "intensity", y: "y", text: "text", dy: -9, dx: -4, textAnchor: "end", ...halo }),
        Plot.tip(points, Plot.pointer({ x: "intensity", y: "y", title })),
      ],
    }));
    if (measured.length) {
      place.append(h("p", { class: "soft" },
        h("span", { style: "color: var(--compute)" }, "\u25cf"), " bound by arithmetic  ",
        h("span", { style: "color: var(--bytes)" }, "\u25cf"), " bound by memory or caches"));
    }
  };

  // -- graph

  const BOX = { width: 230, height: 44 };
  widgets.graph = (place, { graph }) => {
    const most = d3.max(graph.boxes, (b) => b.share) || 1;
    const shade = (share) => d3.interpolateYlOrRd(0.05 + 0.8 * share / most);
    const dark = (share) => share / most > 0.62;
    const edges = [];
    graph.boxes.forEach((b, to) => b.reads.forEach((from) => edges.push([graph.boxes[from], b])));
    const path = ([a, b]) => {
      const x1 = a.x + BOX.width / 2, y1 = a.y + BOX.height, x2 = b.x + BOX.width / 2, y2 = b.y;
      const far = y2 - y1 > 80 && Math.abs(x1 - x2) < BOX.width;
      const out = far ? BOX.width / 2 + Math.min(20 + (y2 - y1) / 12, 90) : 0;
      const bend = Math.max(20, (y2 - y1) / (far ? 4 : 2));
      return `M${x1 + (far ? BOX.width / 4 : 0)},${y1} C${x1 + out},${y1 + bend} ${x2 + out},${y2 - bend} ${x2 + (far ? BOX.width / 4 : 0)},${y2}`;
    };
    const short = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "\u2026");
    const inside = (b, text, ink) => [
      s("title", {}, text),
      s("rect", { width: BOX.width, height: BOX.height, rx: 6, fill: shade(b.share) }),
      s("text", { x: 8, y: 18, fill: ink, "font-weight": 600 }, short(b.label, 27)),
      s("text", { x: 8, y: 35, fill: ink }, `${b.seconds ? time(b.seconds) + ", " : ""}${percent(b.share)}, kernel ${b.kernel}`),
    ];
    const svg = s("svg", { width: graph.width, height: graph.height, viewBox: `0 0 ${graph.width} ${graph.height}`, role: "group", "aria-label": "Calls of kernels" },
      s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        s("path", { d: "M0,0 L8,4 L0,8 z", fill: "currentColor" }))),
      edges.map((e) => s("path", { class: "edge", d: path(e), "marker-end": "url(#arrow)" })),
      graph.boxes.map((b, k) => {
        const ink = dark(b.share) ? "#ffffff" : "#1b1f24";
        const text = `step ${k}, kernel ${b.kernel}, ${b.label}: ${b.nodes}, ${time(b.seconds)}, ${percent(b.share)} of ${graph.measure}`;
        const open = () => { location.hash = `#kernel-${b.kernel}`; };
        const linked = TW.data.kernels.length > 0;
        if (!linked) return s("g", { class: "box still", role: "img", "aria-label": text, transform: `translate(${b.x},${b.y})` }, inside(b, text, ink));
        return s("g", {
          class: "box", tabindex: "0", role: "link", "aria-label": text, transform: `translate(${b.x},${b.y})`, onclick: open,
          onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open(); } },
        },
        inside(b, text, ink));
      }));
    place.append(svg);
    let zoom = 1;
    const scale = (factor) => {
      zoom = Math.min(2, Math.max(0.2, zoom * factor));
      svg.setAttribute("width", graph.width * zoom);
      svg.setAttribute("height", graph.height * zoom);
    };
    const tools = document.querySelector("[data-widget=graph-tools]");
    const hot = graph.boxes.reduce((a, b) => (b.share > a.share ? b : a), graph.boxes[0]);
    tools.append(
      h("button", { type: "button", onclick: () => scale(1.25) }, "Larger"),
      h("button", { type: "button", onclick: () => scale(0.8) }, "Smaller"),
      h("button", { type: "button", onclick: () => { place.scrollTop = hot.y * zoom - 150; place.scrollLeft = hot.x * zoom - 200; } }, "To the largest share"),
    );
  };

  // -- memory

  widgets.memory = (place, { memory }) => {
    const [mib, unit] = memory.size < 1 << 20 ? [1 << 10, "KiB"] : [1 << 20, "MiB"];
    const jump = Math.max(1, Math.round(memory.steps / 16));
    const rows = memory.held.map((v) => ({ ...v, x1: v.first, x2: v.last + 1, y1: v.offset / mib, y2: (v.offset + v.bytes) / mib }));
    place.append(Plot.plot({
      ...base, width: wide(), height: 380, marginLeft: 60, marginBottom: 40,
      ariaLabel: "Memory plan", ariaDescription: "Which bytes of the workspace hold which value during which steps; the table below has the same figures",
      x: { label: "step", domain: [0, memory.steps], ticks: d3.range(0, memory.steps + 1, jump), tickFormat: "d" },
      y: { label: `${unit} of the workspace`, domain: [0, memory.size / mib], grid: true },
      color: { type: "linear", scheme: "YlGnBu", domain: [-0.15 * d3.max(rows, (r) => r.bytes) / mib, d3.max(rows, (r) => r.bytes) / mib] },
      marks: [
        Plot.rect(rows, {
          x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: (r) => r.bytes / mib, stroke: "currentColor", strokeWidth: 0.6, insetLeft: 0.5, insetRight: 0.5,
          ariaLabel: (r) => `${r.name}, ${(r.bytes / 1024).toFixed(1)} KiB, steps ${r.first} to ${r.last}`,
        }),
        Plot.tip(rows, Plot.pointer({
          x: (r) => (r.x1 + r.x2) / 2, y: (r) => (r.y1 + r.y2) / 2,
          title: (r) => `${r.name}\n${(r.bytes / 1024).toFixed(1)} KiB at ${(r.offset / 1024).toFixed(1)} KiB\nsteps ${r.first} to ${r.last}`,
        })),
      ],
    }));
  };

  // -- tuning

  widgets.tuning = (place, { tuning }) => {
    const view = h("div", { "aria-live": "polite" });
    const open = (k) => view.replaceChildren(...task(tuning[k]));
    if (tuning.length > 1) {
      const select = h("select", { id: "task-choice", onchange: () => open(Number(select.value)) },
        tuning.map((t, k) => h("option", { value: k }, t.task)));
      place.append(h("div", { class: "tools" }, h("label", { for: "task-choice" }, "Task"), select));
    }
    place.append(view);
    open(0);
  };

  function task(t) {
    const trials = t.trials.map((x, n) => ({ ...x, n: n + 1, ms: x.seconds === null ? null : x.seconds * 1e3 }));
    const good = trials.filter((x) => x.ms !== null), failed = trials.filter((x) => x.ms === null);
    let best = Infinity;
    const curve = good.map((x) => ({ n: x.n, best: (best = Math.min(best, x.ms)) }));
    if (curve.length) curve.push({ n: trials.length, best });
    const parts = [h("h3", {}, t.task)];
    for (const w of t.warnings) parts.push(h("p", { class: "warning", role: "note" }, w));
    if (!good.length) return [...parts, h("p", {}, "No candidate could be measured."), errors(failed)];
    parts.push(h("figure", {}, h("div", { class: "plot", "data-plot": "curve" }, Plot.plot({
      ...base, width: wide(), height: 300, marginLeft: 60, marginBottom: 40, ariaLabel: "Tuning curve",
      x: { label: "measurement", domain: [0, trials.length + 1] }, y: { type: "log", label: "ms", tickFormat: "~g", grid: true, domain: [best * 0.8, d3.max(good, (x) => x.ms) * 1.2] },
      marks: [
        Plot.dot(good, { x: "n", y: "ms", r: 2.5, fill: "var(--compute)", fillOpacity: 0.7 }),
        Plot.tickX(failed, { x: "n", y: null, stroke: "var(--bytes)", strokeOpacity: 0.35 }),
        Plot.line(curve, { x: "n", y: "best", curve: "step-after", stroke: "currentColor", strokeWidth: 1.75 }),
        Plot.tip(good, Plot.pointer({ x: "n", y: "ms", title: (x) => `measurement ${x.n}\n${x.ms.toPrecision(4)} ms\nnoise ${percent(x.noise)}` })),
      ],
    })), h("figcaption", {}, `Dots: measurements; line: the best so far, ${best.toPrecision(4)} ms in the end; upright lines: ${failed.length} failures.`)));
    const guessed = good.filter((x) => x.predicted !== null);
    if (guessed.length > 1) {
      parts.push(h("figure", {}, h("div", { class: "plot", "data-plot": "predicted" }, Plot.plot({
        ...base, width: 520, height: 340, marginLeft: 60, marginBottom: 40, ariaLabel: "Predicted against measured",
        x: { label: "speed measured, of the best", domain: [0, 1.02], grid: true }, y: { label: "score predicted", grid: true },
        marks: [
          Plot.dot(guessed, { x: (x) => best / x.ms, y: "predicted", r: 2.5, fill: "var(--compute)", fillOpacity: 0.7 }),
          Plot.tip(guessed, Plot.pointer({ x: (x) => best / x.ms, y: "predicted", title: (x) => `measurement ${x.n}\n${x.ms.toPrecision(4)} ms, score ${x.predicted.toPrecision(3)}` })),
        ],
      })), h("figcaption", {}, `${t.predictor} Rank correlation ${t.correlation === null ? "unknown" : t.correlation.toFixed(2)}.`)));
    } else parts.push(h("p", { class: "soft" }, t.predictor));
    parts.push(choices(t.choices), errors(failed),
      h("details", {}, h("summary", {}, "Steps of the best"), h("div", { class: "code", style: "height: auto; max-height: 20rem", tabindex: "0" },
        h("ol", {}, t.best.map((x) => h("li", {}, x))))));
    return parts.filter(Boolean);
  }

  function choices(found) {
    if (!found.length) return null;
    const row = (c) => c.values.map(([value, times, best], k) => h("tr", {},
      k ? null : h("th", { scope: "rowgroup", rowspan: c.values.length }, c.name),
      h("td", {}, value), h("td", {}, String(times)), h("td", {}, best === null ? "none ran" : `${(best * 1e3).toPrecision(4)} ms`)));
    return h("details", { open: found.length < 8 }, h("summary", {}, "What the search tried"),
      h("div", { class: "scroll", tabindex: "0" }, h("table", { class: "num" },
        h("thead", {}, h("tr", {}, ["choice", "value", "tried", "best with it"].map((x) => h("th", { scope: "col" }, x)))),
        found.map((c) => h("tbody", {}, row(c))))));
  }

  function errors(failed) {
    if (!failed.length) return null;
    const counts = d3.rollups(failed, (x) => x.length, (x) => x.error).sort((a, b) => b[1] - a[1]);
    return h("p", { class: "soft" }, `Failures: ${counts.map(([name, n]) => `${n} ${name}`).join(", ")}.`);
  }
})();
