// Sorting, filtering and shortening of tables; the page is complete without it.
const FIRST = 12;
const key = (text) => {
  const number = Number(text.replace(/[,%\s]/g, "").replace("\u2212", "-"));
  return text.trim() !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
};
const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const place = table.closest(".table");
  const field = place.querySelector("input");
  const none = place.querySelector(".none");
  let all = null;

  // A row is hidden by the filter, or waits in a long table until all rows are asked for.
  const refresh = () => {
    const words = field ? field.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
      row.classList.toggle("later", !row.hidden && shown > FIRST);
    }
    none.hidden = shown > 0;
    if (all) {
      all.hidden = shown <= FIRST;
      all.textContent = table.classList.contains("short") ? `Show all ${shown} rows` : `Show ${FIRST} rows`;
    }
  };

  heads.forEach((head, index) => {
    head.querySelector("button").addEventListener("click", () => {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const direction = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((a, b) => sign * order(key(a.cells[index].textContent), key(b.cells[index].textContent)));
      body.append(...rows);
      refresh();
    });
  });

  if (body.rows.length > FIRST + 3) {
    all = document.createElement("button");
    all.type = "button";
    all.className = "all";
    all.addEventListener("click", () => {
      table.classList.toggle("short");
      refresh();
    });
    table.classList.add("short");
    table.parentElement.after(all);
  }
  if (field) field.addEventListener("input", refresh);
  refresh();
}
