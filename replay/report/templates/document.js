// Sorting and filtering for tables; the page is complete without it.
const key = (text) => {
  const number = Number(text.replace(/[,%\s]/g, ""));
  return text.trim() !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
};
const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
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
    });
  });
}

for (const field of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(field.dataset.filter);
  const none = table.closest(".table").querySelector(".none");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    none.hidden = shown > 0;
  });
}
