"use strict";

// Tables: a heading's button sorts its column; numbers by value, what is missing last either way.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      sortRows(table.tBodies[0], column, falling ? -1 : 1);
    });
  });
}

function sortRows(body, column, direction) {
  const keyed = [...body.rows].map((row) => ({ row, key: row.cells[column].dataset.sort }));
  const numeric = keyed.every(({ key }) => key === "" || !Number.isNaN(Number(key)));
  keyed.sort((a, b) => {
    if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "");
    const order = numeric
      ? Math.sign(Number(a.key) - Number(b.key) || 0)
      : a.key.localeCompare(b.key, "en", { numeric: true });
    return direction * order;
  });
  body.append(...keyed.map(({ row }) => row));
}

// What is folded is printed too, but for commands.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open], .source)")];
  opened.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

// Beside the verdict one task set is shown at a time.
document.getElementById("group")?.addEventListener("change", (event) => {
  for (const panel of document.querySelectorAll(".opening .panel[data-group]")) {
    panel.hidden = panel.dataset.group !== event.target.value;
  }
});

// A link into a fold opens what it lies in.
addEventListener("hashchange", unfold);
function unfold() {
  let place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
}

// Charts, one after another so that the page stays quick, each as wide as its place, when that is known and whenever it
// changes; colours of axes and grid are the style sheet's.
const UNSEEN_WIDTH = 480;
const views = new Map();
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const view = views.get(target.id);
    if (view && target.clientWidth && target.clientWidth !== view.width()) {
      view.width(target.clientWidth).runAsync();
    }
  }
});

async function draw() {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  for (const [id, spec] of Object.entries(specs)) {
    const place = document.getElementById(id);
    try {
      const width = place.clientWidth || UNSEEN_WIDTH;
      const { view } = await vegaEmbed(place, { ...spec, width }, { actions: false, renderer: "svg" });
      views.set(id, view);
      widths.observe(place);
    } catch (error) {
      place.textContent = "This chart could not be drawn.";
      console.error(id, error);
    }
  }
  document.documentElement.dataset.charts = String(views.size);
}

unfold();
draw();
