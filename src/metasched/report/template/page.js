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

// What is folded is printed too, but for the contents and for sources that stand at a figure or table as well.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open], .card *)")];
  opened.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

// Charts, one after another so that the page stays quick; colours of text and grid are the style sheet's.
const views = new Map();

async function draw() {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  for (const [id, spec] of Object.entries(specs)) {
    const place = document.getElementById(id);
    try {
      const { view } = await vegaEmbed(place, spec, { actions: false, renderer: "svg" });
      views.set(id, view);
    } catch (error) {
      place.textContent = "This chart could not be drawn.";
      console.error(id, error);
    }
  }
  document.documentElement.dataset.charts = String(views.size);
}

// Legends: choosing a name fades the others in all panels of the figure; choosing it again brings them back.
for (const figure of document.querySelectorAll("figure")) {
  const buttons = [...figure.querySelectorAll(".legend button")];
  buttons.forEach((button) => {
    button.addEventListener("click", () => {
      const chosen = button.getAttribute("aria-pressed") !== "true";
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(chosen && other === button)));
      for (const chart of figure.querySelectorAll(".chart")) {
        views.get(chart.id)?.signal("picked", chosen ? button.dataset.name : "").runAsync();
      }
    });
  });
}

draw();
