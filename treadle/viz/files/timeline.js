"use strict";
(() => {
  const ROW = 18, GAP = 10, RULER = 22, NAME = 16; // heights of rows and what is between
  const COLORS = ["#93c5fd", "#fcd34d", "#86efac", "#f9a8d4", "#c4b5fd", "#fdba74", "#a5f3fc", "#bef264"];
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const { strings, begin, ns } = data;
  const count = begin.length;
  const whole = begin.reduce((end, from, k) => Math.max(end, from + ns[k]), 1);
  const canvas = byId("canvas"), pen = canvas.getContext("2d"), panel = byId("panel");
  const name = (k) => strings[data.name[k]];
  let view = { from: 0, to: whole }, chosen = null, words = [];

  // The first row of each thread; a thread has as many as its events lie in each other.
  const tops = [];
  let height = RULER;
  data.threads.forEach((_, t) => {
    let deep = 0;
    for (let k = 0; k < count; k += 1) if (data.thread[k] === t) deep = Math.max(deep, data.depth[k]);
    tops.push(height + NAME);
    height += NAME + (deep + 1) * ROW + GAP;
  });

  const time = (t) => t >= 1e9 ? `${(t / 1e9).toPrecision(4)} s` : t >= 1e6 ? `${(t / 1e6).toPrecision(4)} ms` : `${(t / 1e3).toPrecision(4)} \u00b5s`;
  const width = () => canvas.clientWidth;
  const across = (t) => ((t - view.from) / (view.to - view.from)) * width();
  const themed = (what) => getComputedStyle(document.documentElement).getPropertyValue(what).trim();
  const matches = (k) => words.every((w) => `${name(k)}\n${strings[data.line[k]]}`.toLowerCase().includes(w));
  const color = (k) => {
    if (strings[data.kind[k]] === "run") return "#cbd5e1";
    if (strings[data.kind[k]] === "compile") return "#fecaca";
    return COLORS[data.name[k] % COLORS.length];
  };

  function draw() {
    const scale = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = width() * scale;
    canvas.height = height * scale;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
    pen.fillStyle = themed("--ground");
    pen.fillRect(0, 0, width(), height);
    ruler();
    pen.fillStyle = themed("--faint");
    data.threads.forEach((text, t) => pen.fillText(text, 6, tops[t] - 4));
    for (let k = 0; k < count; k += 1) bar(k);
  }

  function ruler() {
    const rough = (view.to - view.from) / (width() / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    pen.strokeStyle = themed("--line");
    pen.fillStyle = themed("--faint");
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = Math.round(across(t)) + 0.5;
      pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
      pen.fillText(t ? time(t) : "0", x + 4, 13);
    }
  }

  function bar(k) {
    const x = across(begin[k]), wide = Math.max(across(begin[k] + ns[k]) - x, 0.6);
    if (x > width() || x + wide < 0) return;
    const left = Math.max(x, 0), right = Math.min(x + wide, width());
    const y = tops[data.thread[k]] + data.depth[k] * ROW;
    pen.globalAlpha = words.length && !matches(k) ? 0.2 : 1;
    pen.fillStyle = color(k);
    pen.fillRect(left, y, right - left, ROW - 2);
    if (k === chosen) {
      pen.strokeStyle = themed("--accent"); pen.lineWidth = 2;
      pen.strokeRect(left, y, right - left, ROW - 2); pen.lineWidth = 1;
    }
    const room = Math.floor((right - left - 6) / 6.7);
    if (room > 2) {
      pen.fillStyle = "#1f2328";
      pen.fillText(name(k).length > room ? `${name(k).slice(0, room - 1)}\u2026` : name(k), left + 3, y + 12);
    }
    pen.globalAlpha = 1;
  }

  function at(x, y) {
    for (let k = count - 1; k >= 0; k -= 1) {
      const top = tops[data.thread[k]] + data.depth[k] * ROW;
      const left = across(begin[k]);
      if (y >= top && y < top + ROW - 2 && x >= left - 1 && x <= Math.max(across(begin[k] + ns[k]), left + 2)) return k;
    }
    return null;
  }

  function element(kind, text) {
    const made = document.createElement(kind);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function tell() {
    panel.replaceChildren();
    if (chosen === null) return totals();
    const list = element("dl"), k = chosen;
    const rate = (n) => `${n.toLocaleString("en")}   ${(n / ns[k]).toPrecision(3)} G/s`;
    for (const [key, value] of [
      ["time", time(ns[k])], ["begins at", time(begin[k])], ["thread", data.threads[data.thread[k]]],
      ["kind", strings[data.kind[k]]], ["lines", strings[data.line[k]]],
      ["bytes", data.bytes[k] && rate(data.bytes[k])], ["operations", data.flops[k] && rate(data.flops[k])],
    ]) if (value) list.append(element("dt", key), element("dd", value));
    panel.append(element("h2", name(k)), list);
  }

  // What was done most, of what the search leaves, in the stretch that is shown.
  function totals() {
    const sums = new Map();
    for (let k = 0; k < count; k += 1) {
      if (strings[data.kind[k]] === "run" || !matches(k)) continue;
      if (begin[k] > view.to || begin[k] + ns[k] < view.from) continue;
      const [calls, sum] = sums.get(name(k)) || [0, 0];
      sums.set(name(k), [calls + 1, sum + ns[k]]);
    }
    const table = element("table"), head = element("tr");
    head.append(...["busy", "calls", "each", "name"].map((text) => element("th", text)));
    table.append(head);
    for (const [text, [calls, sum]] of [...sums].sort((a, b) => b[1][1] - a[1][1]).slice(0, 40)) {
      const row = element("tr");
      row.append(...[time(sum), calls, time(sum / calls), text].map((cell) => element("td", cell)));
      table.append(row);
    }
    panel.append(table);
  }

  function look(from, to) {
    const wide = Math.min(Math.max(to - from, 50), whole * 1.02);
    const low = Math.min(Math.max(from, -whole * 0.01), whole * 1.01 - wide);
    view = { from: low, to: low + wide };
    draw();
    if (chosen === null) tell();
  }

  function zoom(factor, x) {
    const middle = view.from + (x / width()) * (view.to - view.from);
    look(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), event.offsetX);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, far: 0, ...view }; });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { const k = at(event.offsetX, event.offsetY); canvas.title = k === null ? "" : `${name(k)}\n${time(ns[k])}`; return; }
    const moved = event.offsetX - drag.x, shift = (moved / width()) * (drag.to - drag.from);
    drag.far = Math.max(drag.far, Math.abs(moved));
    look(drag.from - shift, drag.to - shift);
  });
  addEventListener("pointerup", (event) => {
    if (drag && drag.far < 4 && event.target === canvas) { chosen = at(event.offsetX, event.offsetY); tell(); draw(); }
    drag = null;
  });
  byId("fit").addEventListener("click", () => look(0, whole));
  byId("search").addEventListener("input", (event) => {
    words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = null; tell(); draw();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { chosen = null; tell(); draw(); document.activeElement.blur(); }
    if (event.target.tagName === "INPUT") return;
    if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
    if (event.key === "f") look(0, whole);
    if (event.key === "+" || event.key === "w") zoom(0.7, width() / 2);
    if (event.key === "-" || event.key === "s") zoom(1.4, width() / 2);
  });
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const more = data.total > count ? `, the longest ${count.toLocaleString("en")} drawn` : "";
  byId("about").textContent = `${time(whole)}, ${data.total.toLocaleString("en")} events${more}. Scroll to zoom, drag to move, click for more.`;
  look(0, whole);
})();
