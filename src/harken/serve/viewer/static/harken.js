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

  document.addEventListener("input", (event) => {
    const shown = document.getElementById("threshold-shown");
    if (shown && event.target.name === "threshold") shown.textContent = Number(event.target.value).toFixed(2);
  });

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
    const { x, series } = JSON.parse(place.dataset.chart);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--soft").trim(), line = style.getPropertyValue("--line").trim();
    const colours = [style.getPropertyValue("--heat3").trim(), style.getPropertyValue("--warn").trim()];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const bars = window.uPlot.paths.bars({ size: [0.6, 40] });
    const drawn = {
      width: place.clientWidth, height: 220, scales: { x: { time: true, range: (_u, least, most) => [least - 1.3e6, most + 1.3e6] } }, axes: [axis, { ...axis, size: 60 }],
      series: [{ label: "from" }, ...series.map((each, at) => ({
        label: each.name, stroke: colours[at], fill: colours[at], paths: bars, points: { show: false } }))],
    };
    const chart = new window.uPlot(drawn, [x, ...series.map((each) => each.values)], place);
    addEventListener("resize", () => chart.setSize({ width: place.clientWidth, height: 220 }));
  }
})();
