// Keys, and counts that change while one looks. Everything else works without this file.
"use strict";
(() => {
  const here = document.querySelector(".menu [aria-current]");
  if (here) here.parentElement.parentElement.parentElement.scrollLeft = here.offsetLeft - 90;
  const help = document.getElementById("help");
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
    const link = next.matches("a") ? next : next.querySelector("a") || next;
    link.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=range]), textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      const box = document.querySelector("input[type=search]");
      if (box) box.focus();
      else location.assign(document.body.dataset.search);
    } else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?" && help) help.open ? help.close() : help.showModal();
  });

  const slider = document.querySelector("input[type=range][name=threshold]");
  const shown = document.getElementById("threshold-shown");
  if (slider && shown) slider.addEventListener("input", () => { shown.textContent = Number(slider.value).toFixed(2); });

  const live = document.querySelector("[data-live-from]");
  if (live && window.EventSource) {
    const source = new EventSource(live.dataset.liveFrom);
    source.onmessage = (event) => {
      for (const [name, value] of Object.entries(JSON.parse(event.data))) {
        for (const place of document.querySelectorAll(`[data-live="${name}"]`)) {
          place.textContent = name.endsWith("usd") ? `$${value.toFixed(2)}` : value.toLocaleString("en-US");
        }
      }
    };
    const asleep = document.getElementById("asleep");
    source.onerror = () => { if (asleep) asleep.hidden = false; };
    source.onopen = () => { if (asleep) asleep.hidden = true; };
  }

  for (const place of document.querySelectorAll("[data-chart]")) {
    if (!window.uPlot) break;
    // What is not shown has no width.
    place.classList.add("drawn");
    const { x, series, lines } = JSON.parse(place.dataset.chart);
    const gap = Math.min(...x.slice(1).map((each, at) => each - x[at]), 2.6e6);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--soft").trim(), line = style.getPropertyValue("--line").trim();
    const colours = [style.getPropertyValue("--heat3").trim(), style.getPropertyValue("--warn").trim()];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const bars = window.uPlot.paths.bars({ size: [0.6, 40] });
    const drawn = {
      width: place.clientWidth, height: 220, scales: { x: { time: true, range: () => [x[0] - gap / 2, x[x.length - 1] + gap / 2] }, y: { range: (_u, _least, most) => [0, most * 1.1 || 1] } }, axes: [axis, { ...axis, size: 60 }],
      series: [{ label: "from" }, ...series.map((each, at) => ({
        label: each.name, stroke: colours[at], width: 2, points: { show: Boolean(lines) },
        ...(lines ? {} : { fill: colours[at], paths: bars }) }))],
    };
    const chart = new window.uPlot(drawn, [x, ...series.map((each) => each.values)], place);
    addEventListener("resize", () => chart.setSize({ width: place.clientWidth, height: 220 }));
  }

  const drawMap = async (canvas) => {
    const figure = canvas.closest("figure"), told = figure.querySelector("figcaption"), usual = told.textContent;
    const answer = await fetch(canvas.dataset.map);
    if (!answer.ok) return;
    const { topics, points } = await answer.json();
    figure.hidden = false;
    const pen = canvas.getContext("2d"), edge = 18;
    let side = 0, chosen = -1, near = null;
    const at = (value) => edge + ((value + 1) / 2) * (side - 2 * edge);
    const draw = () => {
      const sharp = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(name).trim();
      side = canvas.clientWidth;
      canvas.width = canvas.height = side * sharp;
      pen.setTransform(sharp, 0, 0, sharp, 0, 0);
      const size = points.length > 1500 ? 2 : points.length > 300 ? 3 : 5;
      const dot = (point, grown) => { pen.beginPath(); pen.arc(at(point[0]), at(-point[1]), size + grown, 0, 7); pen.fill(); };
      for (const point of points) {
        pen.globalAlpha = chosen >= 0 && point[2] !== chosen ? 0.15 : point[2] < 0 ? 0.4 : 0.85;
        pen.fillStyle = colour(point[2] < 0 ? "--soft" : `--t${point[2] % 8}`);
        dot(point, 0);
      }
      pen.globalAlpha = 1;
      if (near) { pen.fillStyle = colour("--ink"); dot(near, 2); }
      pen.font = "600 12px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.lineJoin = "round";
      topics.slice(0, 12).forEach((name, number) => {
        if (chosen >= 0 && chosen !== number) return;
        const mine = points.filter((point) => point[2] === number);
        const middle = (axis) => mine.reduce((sum, point) => sum + point[axis], 0) / mine.length;
        const words = name.length > 32 ? `${name.slice(0, 31)}…` : name, half = pen.measureText(words).width / 2 + 4;
        const x = Math.max(half, Math.min(side - half, at(middle(0))));
        const y = Math.max(14, Math.min(...mine.map((point) => at(-point[1]))) - 9);
        pen.strokeStyle = colour("--card");
        pen.lineWidth = 4;
        pen.strokeText(words, x, y);
        pen.fillStyle = colour("--ink");
        pen.fillText(words, x, y);
      });
    };
    const nearest = (event) => {
      const far = (point) => Math.hypot(at(point[0]) - event.offsetX, at(-point[1]) - event.offsetY);
      let best = null;
      for (const point of points) if (far(point) < (best ? far(best) : 14)) best = point;
      return best;
    };
    const show = (point, topic) => {
      near = point;
      chosen = topic;
      told.textContent = point ? `${point[4]}${point[2] < 0 ? "" : ` (${topics[point[2]]})`}` : usual;
      draw();
    };
    canvas.addEventListener("mousemove", (event) => show(nearest(event), -1));
    canvas.addEventListener("mouseleave", () => show(null, -1));
    canvas.addEventListener("click", (event) => {
      const point = nearest(event);
      if (point) location.assign(canvas.dataset.leads + encodeURIComponent(point[3]));
    });
    for (const row of document.querySelectorAll("[data-topic]")) {
      const mine = Number(row.dataset.topic);
      for (const kind of ["mouseenter", "focusin"]) row.addEventListener(kind, () => show(null, mine));
      for (const kind of ["mouseleave", "focusout"]) row.addEventListener(kind, () => show(null, -1));
    }
    addEventListener("resize", draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
  };
  const drawMaps = () => {
    for (const canvas of document.querySelectorAll("canvas[data-map]:not([data-drawn])")) {
      canvas.dataset.drawn = "";
      drawMap(canvas);
    }
  };
  document.addEventListener("htmx:afterSwap", drawMaps);
  drawMaps();
})();
