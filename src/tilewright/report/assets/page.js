// What all widgets share: elements, data, and the chooser of kernels.
"use strict";
const TW = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of [children].flat(3)) {
      if (child !== null && child !== undefined && child !== "") node.append(child);
    }
    return node;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }
  const opened = new Map();
  function kernel(k) {
    if (!opened.has(k)) opened.set(k, unpack(document.getElementById(`blob-${k}`).textContent));
    return opened.get(k);
  }

  function time(seconds) {
    if (seconds === null || seconds === undefined) return "not measured";
    const [unit, scale] = seconds >= 1 ? ["s", 1] : seconds >= 1e-3 ? ["ms", 1e3] : seconds >= 1e-6 ? ["us", 1e6] : ["ns", 1e9];
    return `${(seconds * scale).toPrecision(3)} ${unit}`;
  }
  const percent = (x) => `${(x * 100).toFixed(x < 0.1 ? 1 : 0)}%`;

  // Tabs after the pattern of WAI-ARIA: arrows move, one panel is shown.
  let made = 0;
  function tabs(label, panels) {
    const id = `tabs-${made++}`;
    const body = h("div", { role: "tabpanel", tabindex: "0", id: `${id}-panel` });
    const buttons = panels.map(([name, render], k) => h("button", {
      type: "button", role: "tab", id: `${id}-${k}`, "aria-controls": body.id, onclick: () => choose(k),
      onkeydown: (e) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!step) return;
        e.preventDefault();
        const next = (k + step + panels.length) % panels.length;
        choose(next);
        buttons[next].focus();
      },
    }, name));
    function choose(k) {
      buttons.forEach((b, at) => {
        b.setAttribute("aria-selected", at === k);
        b.tabIndex = at === k ? 0 : -1;
      });
      body.setAttribute("aria-labelledby", `${id}-${k}`);
      body.replaceChildren(...[panels[k][1]()].flat());
    }
    const list = h("div", { role: "tablist", "aria-label": label }, buttons);
    choose(0);
    return [list, body];
  }

  const widgets = {};
  function start() {
    for (const place of document.querySelectorAll("[data-widget]")) {
      const make = widgets[place.dataset.widget];
      if (!make) continue;
      try {
        make(place, data);
      } catch (problem) {
        place.append(h("p", { class: "error" }, `This picture failed: ${problem.message}`));
        console.error(problem);
      }
    }
  }
  document.addEventListener("DOMContentLoaded", start);

  widgets.kernels = (place) => {
    const view = h("div", { class: "kernel", "aria-live": "polite", "aria-busy": "false" });
    const order = data.kernels.map((_, k) => k);
    order.sort((a, b) => (data.kernels[b].share || 0) - (data.kernels[a].share || 0) || a - b);
    const select = h("select", { id: "kernel-choice", onchange: () => open(Number(select.value)) },
      order.map((k) => {
        const kernel = data.kernels[k];
        const share = kernel.share ? ` (${percent(kernel.share)}, ${time(kernel.seconds)})` : "";
        return h("option", { value: k }, `${kernel.name}${kernel.title ? ": " + kernel.title : ""}${share}`);
      }));
    async function open(k) {
      view.setAttribute("aria-busy", "true");
      const found = await kernel(k);
      select.value = k;
      view.replaceChildren(...TW.showKernel(found));
      view.setAttribute("aria-busy", "false");
      view.dataset.kernel = k;
    }
    if (data.kernels.length > 1) {
      place.append(h("div", { class: "tools" }, h("label", { for: "kernel-choice" }, "Kernel, slowest first"), select));
    }
    place.append(view);
    function follow() {
      const wanted = /^#kernel-(\d+)$/.exec(location.hash);
      if (wanted && Number(wanted[1]) < data.kernels.length) {
        open(Number(wanted[1]));
        document.getElementById("kernels").scrollIntoView();
        return true;
      }
      return false;
    }
    addEventListener("hashchange", follow);
    if (!follow()) open(order[0]);
  };
  return { data, h, s, time, percent, tabs, widgets, kernel };
})();
