// One kernel: its loops as a tree, what each pass changed, code beside loops.
"use strict";
(() => {
  const { h, tabs, percent } = TW;
  const count = (x) => {
    for (const [size, name] of [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]]) {
      if (x >= size) return `${Number((x / size).toPrecision(3))} ${name}`;
    }
    return Math.round(x).toLocaleString("en");
  };
  const size = (bytes) => (bytes >= 1 << 20 ? `${(bytes / (1 << 20)).toFixed(1)} MiB`
    : bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} bytes`);

  TW.showKernel = (kernel) => {
    const panels = [
      kernel.tree.length ? ["Loops", () => tree(kernel)] : null,
      kernel.passes.length ? ["Passes", () => passes(kernel)] : null,
      kernel.codes.length ? [mapped(kernel) ? "Code, line to line" : "Code", () => code(kernel)] : null,
    ].filter(Boolean);
    const facts = Object.entries(kernel.figures);
    return [
      h("h3", {}, kernel.title ? `${kernel.name}: ${kernel.title}` : kernel.name),
      facts.length ? h("dl", { class: "facts small" }, facts.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))) : "",
      ...tabs("Views of the kernel", panels),
    ].filter((x) => x !== "");
  };

  const mapped = (kernel) => kernel.codes.some((c) => c.places.some((place) => place > 0));

  // -- loops

  function how(node) {
    if (!node.how || node.how === "serial") return null;
    if (node.kind === "memory" || node.kind === "store") {
      return h("span", { class: `tag ${node.kind === "memory" ? "memory" : "plain"}` }, node.how);
    }
    const known = ["parallel", "vectorized", "unrolled"].includes(node.how);
    return h("span", { class: `tag ${known ? node.how : "thread"}` }, node.how);
  }

  function line(node) {
    const parts = [];
    if (node.kind === "loop" || node.kind === "thread") {
      parts.push(node.kind === "loop" ? "for " : "thread ", node.text);
      if (node.size) parts.push(" in ", h("span", { class: "extent" }, node.size));
    } else if (node.kind === "memory") {
      parts.push("memory ", node.text);
      if (node.bytes !== undefined) parts.push(`, ${size(node.bytes)}`);
    } else parts.push(node.text);
    parts.push(how(node));
    if (node.detail) parts.push(h("span", { class: "runs" }, node.detail));
    const runs = node.kind === "store" ? `runs ${count(node.runs)} times` : null;
    if (runs) parts.push(h("span", { class: "runs" }, runs));
    return parts;
  }

  function branch(node) {
    if (!node.children) return h("li", {}, line(node));
    return h("li", {}, h("details", { open: true }, h("summary", {}, line(node)),
      h("ul", {}, node.children.map(branch))));
  }

  function tree(kernel) {
    const legend = ["parallel", "vectorized", "unrolled"].map((x) => h("span", { class: `tag ${x}` }, x));
    return [
      h("p", { class: "soft" }, "As scheduled, before all passes. ", legend,
        h("span", { class: "tag thread" }, "GPU thread"), h("span", { class: "tag memory" }, "where it is stored")),
      h("div", { class: "scroll" }, h("ul", { class: "tree", "data-view": "tree" }, kernel.tree.map(branch))),
    ];
  }

  // -- passes

  // Lines that were taken away, added or kept: a longest common subsequence between equal ends.
  function difference(before, after) {
    let start = 0, end = 0;
    while (start < before.length && start < after.length && before[start] === after[start]) start++;
    while (end < before.length - start && end < after.length - start
      && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
    const a = before.slice(start, before.length - end), b = after.slice(start, after.length - end);
    const rows = before.slice(0, start).map((text) => ["", text]);
    if (a.length * b.length > 4e6) {
      rows.push(...a.map((text) => ["del", text]), ...b.map((text) => ["add", text]));
    } else {
      const width = b.length + 1, table = new Uint16Array((a.length + 1) * width);
      for (let i = a.length - 1; i >= 0; i--) {
        for (let j = b.length - 1; j >= 0; j--) {
          table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1
            : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
        }
      }
      let i = 0, j = 0;
      while (i < a.length || j < b.length) {
        if (i < a.length && j < b.length && a[i] === b[j]) { rows.push(["", a[i]]); i++; j++; }
        else if (i < a.length && (j === b.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) rows.push(["del", a[i++]]);
        else rows.push(["add", b[j++]]);
      }
    }
    rows.push(...before.slice(before.length - end).map((text) => ["", text]));
    return rows;
  }
  TW.difference = difference;

  function folded(rows, around) {
    const near = new Uint8Array(rows.length);
    rows.forEach(([kind], k) => {
      if (kind) near.fill(1, Math.max(0, k - around), k + around + 1);
    });
    const out = [];
    let hidden = 0;
    rows.forEach((row, k) => {
      if (near[k]) {
        if (hidden) out.push(["gap", `  ... ${hidden} lines as before`, ""]);
        hidden = 0;
        out.push(row);
      } else hidden++;
    });
    if (hidden) out.push(["gap", `  ... ${hidden} lines as before`, ""]);
    return out;
  }

  function passes(kernel) {
    const sign = { add: "+", del: "-", gap: "", "": "" };
    const view = h("div", { class: "code", tabindex: "0", role: "group", "aria-label": "What the pass changed" });
    const whole = h("input", { type: "checkbox", id: "whole", onchange: () => show(chosen) });
    let chosen = 0;
    const buttons = kernel.passes.map((p, k) => h("button", { type: "button", onclick: () => show(k) }, p.name));
    function show(k) {
      chosen = k;
      buttons.forEach((b, at) => b.setAttribute("aria-pressed", at === k));
      const now = kernel.passes[k].text.split("\n");
      let rows = k === 0 ? now.map((text) => ["", text]) : difference(kernel.passes[k - 1].text.split("\n"), now);
      let last = 0;
      rows = rows.map(([kind, text]) => [kind, text, kind === "del" ? "" : ++last]);
      if (k > 0 && !whole.checked) rows = folded(rows, 3);
      view.replaceChildren(h("ol", {}, rows.map(([kind, text, number]) => h("li", { class: kind || null },
        h("span", { class: "n" }, `${sign[kind]}${number}`),
        h("span", {}, text || " ")))));
    }
    show(Math.min(1, kernel.passes.length - 1));
    return [
      h("div", { class: "tools", "data-view": "passes" }, buttons),
      h("div", { class: "tools" }, h("label", {}, whole, " whole text"),
        h("span", { class: "soft" }, kernel.unchanged.length ? `Changed nothing: ${kernel.unchanged.join(", ")}.` : "")),
      view,
    ];
  }

  // -- code beside loops

  function code(kernel) {
    const groups = [];
    kernel.codes.forEach((c) => (c.title === "Loops" || !groups.length ? groups.push([c]) : groups[groups.length - 1].push(c)));
    return groups.map((group) => panes(group));
  }

  function panes(group) {
    const weights = group[0].weights || [];
    const most = Math.max(1e-9, ...weights);
    const lists = [];
    const made = group.map((c, at) => pane(c, at));

    function link(place, from, scroll) {
      lists.forEach((rows, at) => {
        let first = null;
        rows.forEach(({ node, place: own }) => {
          const same = place > 0 && own === place;
          node.classList.toggle("linked", same);
          if (same && first === null) first = node;
        });
        if (scroll && at !== from && first) {
          const box = first.closest(".code");
          box.scrollTop = first.offsetTop - box.clientHeight / 3;
        }
      });
    }

    function pane(c, at) {
      if (!c.text) return h("div", { class: "pane" }, h("h4", {}, c.title), h("p", { class: "soft" }, c.note));
      let chosen = -1;
      const rows = c.text.split("\n").map((text, k) => {
        const place = c.places[k] || 0, weight = place ? weights[place - 1] || 0 : 0;
        const node = h("li", {
          role: "option", id: `line-${lists.length}-${at}-${k}-${Math.random().toString(36).slice(2, 7)}`,
          "aria-selected": "false", "data-place": place,
          style: weight > 0 ? `border-left-color: rgba(var(--hot), ${(0.15 + 0.85 * weight / most).toFixed(2)})` : null,
          title: place ? `line ${place} of the loops${weight >= 0.001 ? `, ${percent(weight)} of the estimated work` : ""}` : null,
          onclick: () => choose(k),
        }, h("span", { class: "n" }, String(k + 1)),
        at === 0 && weights.length ? h("span", { class: "w" }, weight >= 0.0005 ? percent(weight) : "") : null,
        h("span", {}, text || " "));
        return { node, place };
      });
      lists.push(rows);
      const own = lists.length - 1;
      function choose(k) {
        if (k < 0 || k >= rows.length) return;
        if (chosen >= 0) rows[chosen].node.setAttribute("aria-selected", "false");
        chosen = k;
        rows[k].node.setAttribute("aria-selected", "true");
        box.setAttribute("aria-activedescendant", rows[k].node.id);
        link(rows[k].place, own, true);
        const top = rows[k].node.offsetTop;
        if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 30) box.scrollTop = top - box.clientHeight / 2;
      }
      const box = h("div", {
        class: "code", tabindex: "0", role: "listbox", "aria-label": `${c.title}, lines`,
        onkeydown: (e) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
          if (step) { e.preventDefault(); choose(chosen + step); }
        },
      }, h("ol", { role: "presentation" }, rows.map((r) => r.node)));
      return h("div", { class: "pane", "data-pane": c.title }, h("h4", {}, c.title), box, h("p", { class: "soft" }, c.note));
    }

    const hottest = weights.indexOf(most) + 1;
    if (hottest > 0) setTimeout(() => link(hottest, -1, true), 0);
    const shown = made.map((node, at) => {
      const box = h("input", { type: "checkbox", checked: at !== 1 || made.length < 3, onchange: () => { node.hidden = !box.checked; } });
      node.hidden = !box.checked;
      return h("label", {}, box, ` ${group[at].title}`);
    });
    return h("div", { "data-view": "code" },
      h("div", { class: "tools" }, "Show", shown,
        weights.length ? h("span", { class: "soft" }, "Choose a line (click, or arrow keys) to see what it becomes and comes from.") : null),
      h("div", { class: "panes" }, made));
  }
})();
