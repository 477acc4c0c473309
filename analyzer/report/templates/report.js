
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  const SVG = "http://www.w3.org/2000/svg";

  // ---- tooltips: the text of a bar's <title>, shown at once and reachable by keyboard ----
  for (const title of document.querySelectorAll(".bar > title")) {
    const bar = title.parentNode;
    bar.dataset.tip = title.textContent;
    bar.setAttribute("aria-label", title.textContent);
    bar.setAttribute("role", bar.closest(".timeline") ? "listitem" : "img");
    title.remove();
  }
  const showTip = (bar, x, y) => {
    tip.textContent = bar.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const bar = event.target instanceof Element ? event.target.closest(".bar[data-tip]") : null;
    if (bar) showTip(bar, event.clientX, event.clientY); else hideTip();
  });
  addEventListener("scroll", hideTip, { passive: true });

  // ---- lock timelines: zoom and pan by the width and place of the inner drawing ----
  const step = (span, wanted) => {
    const power = 10 ** Math.floor(Math.log10(span / wanted));
    return [1, 2, 5, 10].map((m) => m * power).find((size) => span / size <= wanted);
  };
  const label = (ns, size) => (ns / 1e9).toFixed(Math.max(0, 9 - Math.floor(Math.log10(size)))) + " s";
  const make = (name, attributes) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  const timeline = (figure) => {
    const plot = figure.querySelector(".plot");
    const zoom = figure.querySelector(".zoom");
    const ticks = figure.querySelector(".ticks");
    const start = Number(figure.dataset.start);
    const span = Number(figure.dataset.end) - start;
    const height = Number(zoom.getAttribute("height"));
    const bars = [...figure.querySelectorAll(".bar")].sort((a, b) => parseFloat(a.getAttribute("x")) - parseFloat(b.getAttribute("x")));
    const most = Math.max(1, span / 1000); // down to a microsecond
    let scale = 1;
    let left = 0; // of the window, as a part of the whole
    let current = -1;

    const draw = () => {
      scale = Math.min(most, Math.max(1, scale));
      left = Math.min(1 - 1 / scale, Math.max(0, left));
      zoom.setAttribute("x", -100 * left * scale + "%");
      zoom.setAttribute("width", 100 * scale + "%");
      const from = start + left * span;
      const width = span / scale;
      const size = step(width, plot.clientWidth < 500 ? 3 : 7);
      ticks.replaceChildren();
      for (let at = Math.ceil(from / size) * size; at <= from + width; at += size) {
        const x = 100 * (at - from) / width;
        const place = { x1: x + "%", x2: x + "%", y1: 0, y2: height };
        const text = make("text", { x: x + "%", y: height + 14, class: x < 6 ? "first" : x > 94 ? "last" : "mid" });
        text.textContent = label(at, size);
        ticks.append(make("line", place), text);
      }
      figure.querySelector(".window").textContent =
        scale > 1 ? label(from, size / 10) + " to " + label(from + width, size / 10) : "";
      figure.dataset.scale = scale;
    };
    const zoomBy = (factor, at) => {
      const before = left + at / scale;
      scale = Math.min(most, Math.max(1, scale * factor));
      left = before - at / scale;
      hideTip();
      draw();
    };
    const pan = (part) => { left += part / scale; hideTip(); draw(); };
    const all = () => { scale = 1; left = 0; hideTip(); draw(); };
    const point = (event) => {
      const box = plot.getBoundingClientRect();
      return (event.clientX - box.left) / box.width;
    };
    const go = (by) => {
      if (!bars.length) return;
      if (current >= 0) bars[current].classList.remove("current");
      current = (current + by + bars.length) % bars.length;
      const bar = bars[current];
      bar.classList.add("current");
      const middle = (parseFloat(bar.getAttribute("x")) + parseFloat(bar.getAttribute("width")) / 2) / 100;
      if (middle < left || middle > left + 1 / scale) left = middle - 0.5 / scale;
      draw();
      const box = bar.getBoundingClientRect();
      const frame = plot.getBoundingClientRect();
      showTip(bar, Math.max(frame.left, Math.min(box.left + box.width / 2, frame.right)), box.bottom);
      said.textContent = bar.dataset.tip;
    };

    const actions = {
      in: () => zoomBy(2, 0.5), out: () => zoomBy(0.5, 0.5), left: () => pan(-0.25), right: () => pan(0.25), all,
    };
    const keys = {
      "+": actions.in, "=": actions.in, "-": actions.out, ArrowLeft: actions.left, ArrowRight: actions.right,
      0: all, Home: all, n: () => go(1), p: () => go(-1), Escape: hideTip,
    };
    figure.querySelector(".tools").hidden = false;
    figure.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-do]");
      if (button) actions[button.dataset.do]();
    });
    plot.setAttribute("tabindex", "0");
    plot.addEventListener("keydown", (event) => {
      const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    plot.addEventListener("blur", hideTip);
    plot.addEventListener("dblclick", (event) => zoomBy(2, point(event)));
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(2 ** (-event.deltaY / 200), point(event));
    }, { passive: false });
    let dragged = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      dragged = { at: point(event), left };
      plot.setPointerCapture(event.pointerId);
      plot.classList.add("drag");
    });
    plot.addEventListener("pointermove", (event) => {
      if (!dragged || scale === 1) return;
      left = dragged.left - (point(event) - dragged.at) / scale;
      draw();
    });
    for (const name of ["pointerup", "pointercancel"]) {
      plot.addEventListener(name, () => { dragged = null; plot.classList.remove("drag"); });
    }
    draw();
    return draw;
  };
  const redraws = [...document.querySelectorAll(".timeline")].map(timeline);
  addEventListener("resize", () => redraws.forEach((draw) => draw()));
  for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;

  // ---- findings: by severity and by words ----
  const form = document.querySelector(".filter");
  if (form) {
    const findings = [...document.querySelectorAll(".finding")];
    const filter = () => {
      const wanted = new Set([...form.querySelectorAll("input[name=severity]:checked")].map((box) => box.value));
      const words = form.elements.words.value.toLowerCase().trim();
      let shown = 0;
      for (const finding of findings) {
        const text = finding.textContent + finding.closest(".rule").querySelector("h3").textContent;
        const fits = wanted.has(finding.dataset.severity) && text.toLowerCase().includes(words);
        finding.hidden = !fits;
        shown += fits;
      }
      for (const rule of document.querySelectorAll(".rule")) rule.hidden = !rule.querySelector(".finding:not([hidden])");
      const narrowed = shown < findings.length;
      form.querySelector("[role=status]").textContent = narrowed ? shown + " of " + findings.length + " shown" : "";
      for (const more of document.querySelectorAll(".more")) {
        more.hidden = !more.querySelector(".finding:not([hidden])");
        if (words && !more.hidden) more.open = true;
      }
    };
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
  }
})();
