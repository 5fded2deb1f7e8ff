"use strict";
(() => {
  const WISHED = 100; // boxes shown at first
  const MOST = 500; // boxes that "Open more" goes up to
  const FOUND = 60; // results of a search that are listed
  const READABLE = 0.45, LARGEST = 1.3; // zooms between which a page begins

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const panel = byId("panel");
  let graph; // the one that is shown
  let chosen = null;

  // -- the tree of groups --------------------------------------------------------

  function prepared(columns) {
    const { name, parent } = columns.groups;
    const groups = name.map((text, k) => ({
      name: text, parent: parent[k], members: [], first: Infinity, count: 0, bytes: 0,
    }));
    columns.group.forEach((home, n) => {
      groups[home].members.push("n" + n);
      for (let g = home; g >= 0; g = parent[g]) {
        groups[g].first = Math.min(groups[g].first, n);
        groups[g].count += 1;
        groups[g].bytes += columns.bytes[n];
      }
    });
    groups.forEach((group, k) => k && groups[group.parent].members.push("g" + k));
    const readers = columns.group.map(() => []);
    columns.inputs.forEach((list, n) => new Set(list).forEach((x) => readers[x].push(n)));
    const made = { columns, groups, readers, open: new Set([0]), text: null };
    openMore(made, WISHED);
    return made;
  }

  const index = (id) => Number(id.slice(1));
  const isGroup = (id) => id[0] === "g";
  const word = (n) => graph.columns.strings[n];
  const labelOf = (n) => word(graph.columns.label[n]);

  function pathOf(g) {
    const names = [];
    for (; g > 0; g = graph.groups[g].parent) names.unshift(graph.groups[g].name);
    return names.join(" / ");
  }

  // By group, -1 where it and all around it are open, else the outermost closed one.
  function closed(of) {
    const found = [];
    of.groups.forEach((group, k) => {
      const outer = group.parent < 0 ? -1 : found[group.parent];
      found.push(outer >= 0 ? outer : of.open.has(k) ? -1 : k);
    });
    return found;
  }

  function shown(of) {
    const hidden = closed(of);
    const groups = of.groups.map((_, k) => k).filter((k) => hidden[k] === k);
    const nodes = of.columns.group.map((_, n) => n).filter((n) => hidden[of.columns.group[n]] < 0);
    return { hidden, groups, nodes, count: groups.length + nodes.length };
  }

  // Open groups from the outside inward, level by level, as long as no more boxes are
  // shown than wished; of a level that is too much, nothing.
  function openMore(of, wished) {
    for (;;) {
      const now = shown(of);
      const depth = (k) => (k < 0 ? 0 : 1 + depth(of.groups[k].parent));
      const outermost = Math.min(...now.groups.map(depth));
      const level = now.groups.filter((k) => depth(k) === outermost);
      const more = level.reduce((sum, k) => sum + of.groups[k].members.length - 1, 0);
      if (!level.length || now.count + more > wished) return;
      level.forEach((k) => of.open.add(k));
    }
  }

  // Open the next level or, where that is too much, the largest group.
  function openNext() {
    const before = graph.open.size;
    openMore(graph, Math.min(2 * shown(graph).count + WISHED, MOST));
    const largest = shown(graph).groups.sort((a, b) => graph.groups[b].count - graph.groups[a].count)[0];
    if (graph.open.size === before && largest !== undefined) graph.open.add(largest);
  }

  // -- the picture ---------------------------------------------------------------

  const themed = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function styles() {
    return [
      { selector: "node", style: {
        shape: "round-rectangle", width: "data(w)", height: "data(h)",
        "background-color": "data(color)", "border-width": 1, "border-color": "#9ca3af",
        label: "data(label)", "text-wrap": "wrap", "text-max-width": 2000, "font-size": 11,
        "font-family": "ui-monospace, Menlo, Consolas, monospace", color: "#1f2328",
        "text-valign": "center", "text-halign": "center", "line-height": 1.25,
      } },
      { selector: "node.group", style: { "border-width": 2, "border-style": "double", "border-color": "#57606a" } },
      { selector: "node.frame", style: {
        "background-color": themed("--frame"), "background-opacity": 0.55,
        "border-style": "dashed", "border-color": themed("--edge"), label: "data(label)",
        "text-valign": "top", "text-halign": "center", "text-margin-y": 15,
        "font-weight": "bold", color: themed("--text"), padding: 22, shape: "round-rectangle",
      } },
      { selector: "edge", style: {
        width: "data(w)", "line-color": themed("--edge"), "target-arrow-color": themed("--edge"),
        "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier", opacity: 0.75,
      } },
      { selector: "node:selected", style: { "border-width": 3, "border-style": "solid", "border-color": themed("--accent") } },
      { selector: "edge.near", style: { "line-color": themed("--accent"), "target-arrow-color": themed("--accent"), opacity: 1 } },
    ];
  }

  const cy = cytoscape({
    container: byId("graph"), elements: [], style: styles(), minZoom: 0.02, maxZoom: 4,
    wheelSensitivity: 0.4, boxSelectionEnabled: false, autoungrabify: true,
  });

  // A color between pale and strong, by the order of magnitude.
  function heat(value, most) {
    if (!value || !most) return "#f3f4f6";
    const share = Math.max(0, 1 + Math.log10(value / most) / 4);
    return `hsl(${48 - 40 * share}, 92%, ${92 - 30 * share}%)`;
  }

  function box(id, label, color) {
    const lines = label.split("\n");
    const wide = Math.max(...lines.map((line) => line.length));
    return { id, label, color, w: wide * 6.7 + 18, h: lines.length * 14 + 12 };
  }

  function elements() {
    const { columns, groups } = graph;
    const now = shown(graph);
    const shade = byId("shade").value;
    const measure = (id) => shade === "ns" ? nanoseconds(id) : isGroup(id) ? groups[index(id)].bytes : columns.bytes[index(id)];
    const ids = [...now.groups.map((k) => "g" + k), ...now.nodes.map((n) => "n" + n)];
    const first = (id) => (isGroup(id) ? groups[index(id)].first : index(id));
    ids.sort((a, b) => first(a) - first(b)); // as the graph was written: layouts follow it
    const most = shade === "kind" ? 0 : Math.max(...ids.map(measure));
    const found = [];
    for (const k of graph.open) {
      if (k && now.hidden[k] < 0) found.push({ classes: "frame", data: { ...box("g" + k, groups[k].name, ""), parent: parentOf(k) } });
    }
    for (const id of ids) {
      const k = index(id);
      const label = isGroup(id) ? `${groups[k].name}\n${groups[k].count} nodes` : `${labelOf(k)}\n${word(columns.type[k])}`;
      const plain = isGroup(id) ? "#e2e8f0" : word(columns.color[k]);
      const color = shade === "kind" ? plain : heat(measure(id), most);
      const parent = isGroup(id) ? parentOf(k) : columns.group[k] ? "g" + columns.group[k] : undefined;
      found.push({ classes: isGroup(id) ? "group" : "", data: { ...box(id, label, color), parent } });
    }
    const links = new Map();
    const at = (n) => { const g = now.hidden[columns.group[n]]; return g < 0 ? "n" + n : "g" + g; };
    columns.inputs.forEach((list, n) => list.forEach((x) => {
      const key = at(x) + " " + at(n);
      if (at(x) !== at(n)) links.set(key, (links.get(key) || 0) + 1);
    }));
    for (const [key, count] of links) {
      const [source, target] = key.split(" ");
      found.push({ data: { id: key, source, target, w: Math.min(1 + Math.log2(count) / 2, 4) } });
    }
    return found;
  }

  const parentOf = (k) => (graph.groups[k].parent > 0 ? "g" + graph.groups[k].parent : undefined);

  function draw(anchor) {
    const before = anchor && cy.getElementById(anchor).nonempty() && cy.getElementById(anchor).renderedPosition();
    cy.elements().remove();
    cy.add(elements());
    const many = cy.nodes().length > 250;
    cy.layout({ name: "dagre", rankDir: "TB", nodeSep: 16, rankSep: 34, edgeSep: 8, fit: false,
      ranker: many ? "longest-path" : "network-simplex" }).run();
    const after = cy.getElementById(anchor || "");
    if (before && after.nonempty()) {
      const now = after.renderedPosition();
      cy.panBy({ x: before.x - now.x, y: before.y - now.y });
    } else {
      cy.fit(undefined, 24);
      if (cy.zoom() > LARGEST) {
        cy.zoom(LARGEST);
        cy.center();
      } else if (cy.zoom() < READABLE) {
        cy.zoom(READABLE);
        cy.center();
        cy.panBy({ x: 0, y: 24 - cy.elements().renderedBoundingBox().y1 });
      }
    }
    document.body.dataset.shown = cy.nodes().length;
  }

  // -- what is told --------------------------------------------------------------

  function element(kind, text, name) {
    const made = document.createElement(kind);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function size(bytes) {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let k = 0;
    for (; bytes >= 1000 && k < 4; k += 1) bytes /= 1000;
    return `${k ? bytes.toPrecision(3) : bytes} ${units[k]}`;
  }

  // Where a time is that of a whole line, the nodes of a line count once.
  function nanoseconds(id) {
    const { ns, line, group } = graph.columns;
    if (!isGroup(id)) return ns[index(id)];
    const lines = new Map();
    let total = 0;
    ns.forEach((time, n) => {
      for (let g = group[n]; g >= 0 && time; g = graph.groups[g].parent) {
        if (g !== index(id)) continue;
        if (graph.columns.timed === "line") lines.set(line[n], time);
        else total += time;
        break;
      }
    });
    return total + [...lines.values()].reduce((a, b) => a + b, 0);
  }

  const duration = (ns) => ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e3).toPrecision(3)} \u00b5s`;

  function row(list, name, value) {
    if (value) list.append(element("dt", name), element("dd", value));
  }

  function link(id) {
    const text = isGroup(id) ? pathOf(index(id)) : `${labelOf(index(id))}  ${word(graph.columns.type[index(id)])}`;
    const made = element("button", text, "link");
    made.addEventListener("click", () => reveal(id));
    return made;
  }

  function listed(title, ids) {
    if (!ids.length) return;
    panel.append(element("h3", `${title} (${ids.length})`), ...ids.slice(0, FOUND).map(link));
  }

  function tell(id) {
    panel.replaceChildren();
    if (id === null) return overview();
    const { columns, groups } = graph;
    const k = index(id);
    const list = element("dl");
    if (isGroup(id)) {
      panel.append(element("h2", groups[k].name));
      const toggle = element("button", graph.open.has(k) ? "Close" : "Open");
      toggle.id = "toggle";
      toggle.addEventListener("click", () => flip(id));
      panel.append(toggle, list);
      row(list, "within", pathOf(groups[k].parent));
      row(list, "nodes", String(groups[k].count));
      row(list, "memory of its values", size(groups[k].bytes));
      if (nanoseconds(id)) row(list, "time", duration(nanoseconds(id)));
      listed("members", groups[k].members);
      return;
    }
    panel.append(element("h2", labelOf(k)), list);
    row(list, "type", word(columns.type[k]));
    row(list, "within", pathOf(columns.group[k]));
    row(list, "line", word(columns.line[k]));
    row(list, "memory", size(columns.bytes[k]));
    if (columns.ns[k]) row(list, columns.timed === "line" ? "time of its line" : "time", duration(columns.ns[k]));
    for (const [key, value] of columns.facts[k]) row(list, word(key), word(value));
    listed("reads", columns.inputs[k].map((n) => "n" + n));
    listed("read by", graph.readers[k].map((n) => "n" + n));
  }

  function overview() {
    const { columns, groups } = graph;
    panel.append(element("h2", `${columns.group.length.toLocaleString("en")} nodes, ${(groups.length - 1).toLocaleString("en")} groups`));
    for (const text of [
      "Click a box to see its type, line, memory and time; double-click a group to open or close it.",
      "Drag to move, scroll to zoom. Keys: / search, f fit, Esc back.",
    ]) panel.append(element("p", text, "faint"));
    listed("members", groups[0].members);
  }

  function choose(id) {
    chosen = id;
    cy.elements().unselect();
    cy.edges().removeClass("near");
    if (id !== null) {
      const one = cy.getElementById(id);
      one.select();
      one.connectedEdges().addClass("near");
    }
    tell(id);
  }

  function flip(id) {
    const k = index(id);
    if (!graph.open.delete(k)) graph.open.add(k);
    draw(id);
    choose(id);
  }

  // Open what a node or group is in, choose it and bring it to the middle.
  function reveal(id) {
    const k = index(id);
    for (let g = isGroup(id) ? graph.groups[k].parent : graph.columns.group[k]; g > 0; g = graph.groups[g].parent) graph.open.add(g);
    draw();
    choose(id);
    cy.zoom(Math.max(cy.zoom(), 0.8));
    cy.center(cy.getElementById(id));
  }

  function search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return tell(chosen);
    const { columns, groups } = graph;
    graph.text ??= columns.group.map((home, n) => [
      labelOf(n), word(columns.type[n]), word(columns.line[n]), pathOf(home),
      ...columns.facts[n].map(([, value]) => word(value)),
    ].join("\n").toLowerCase());
    const fits = (one) => words.every((part) => one.includes(part));
    const inGroups = groups.map((_, k) => k).filter((k) => k && fits(groups[k].name.toLowerCase())).map((k) => "g" + k);
    const inNodes = graph.text.map((_, n) => n).filter((n) => fits(graph.text[n])).map((n) => "n" + n);
    panel.replaceChildren(element("h2", `${inGroups.length + inNodes.length} found`));
    listed("groups", inGroups);
    listed("nodes", inNodes);
  }

  // -- what the user does --------------------------------------------------------

  const made = {};
  function show(name) {
    graph = made[name] ??= prepared(data.graphs[name]);
    draw();
    choose(null);
  }

  cy.on("tap", (event) => choose(event.target === cy ? null : event.target.isNode() ? event.target.id() : chosen));
  cy.on("dbltap", "node", (event) => { if (isGroup(event.target.id())) flip(event.target.id()); });
  const names = Object.keys(data.graphs);
  const which = byId("which");
  which.append(...names.map((name) => element("option", name)));
  which.hidden = names.length < 2;
  which.addEventListener("change", () => show(which.value));
  byId("fit").addEventListener("click", () => cy.fit(undefined, 24));
  byId("more").addEventListener("click", () => { openNext(); draw(); choose(null); });
  byId("less").addEventListener("click", () => { graph.open = new Set([0]); draw(); choose(null); });
  byId("shade").addEventListener("change", () => { draw(chosen); choose(chosen); });
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") panel.querySelector("button.link")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { byId("search").value = ""; document.activeElement.blur(); choose(null); }
    if (/INPUT|SELECT/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
    if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
    if (event.key === "f") cy.fit(undefined, 24);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles()));
  show(names[0]);
})();
