// Sorting, paging and one filter for the whole page, which is complete without it.
const filter = document.getElementById("filter");
const sections = [...document.querySelectorAll("main > section")];

const key = (text) => {
  const number = Number(text.replace(/[,%\s]/g, "").replace("\u2212", "-"));
  return text.trim() !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
};
const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

// Every word must stand in a row; `policy:NAME` must be a name in it, not a part of one.
const POLICY = "policy:";
const wanted = () => (filter ? filter.value.toLowerCase().split(/\s+/).filter(Boolean) : []);
const said = new WeakMap();
const saying = (element) => {
  if (!said.has(element)) {
    const parts = [...(element.cells ?? [element])].map((cell) => cell.textContent.toLowerCase());
    said.set(element, { text: parts.join("\n"), names: new Set(parts.flatMap((part) => part.trim().split(/, | \+\d+ /))) });
  }
  return said.get(element);
};
const matches = (element, words) => {
  if (words.length === 0) return true;
  const { text, names } = saying(element);
  const is = (name) => (element.cells ? names.has(name) : text.includes(name));
  return words.every((word) => (word.startsWith(POLICY) ? is(word.slice(POLICY.length)) : text.includes(word)));
};

const button = (text, name, action) => {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.className = name;
  made.addEventListener("click", action);
  return made;
};

// A table tells how many of its rows match; a long one shows a page of them at a time.
const setUp = (table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const none = table.closest(".table").querySelector(".none");
  const size = Number(table.dataset.page);
  const isLong = body.rows.length > size + 3;
  const pager = document.createElement("p");
  const status = document.createElement("span");
  let first = 0;
  let all = !isLong;

  const refresh = () => {
    const words = wanted();
    const found = [...body.rows].filter((row) => {
      row.hidden = !matches(row, words);
      return !row.hidden;
    });
    if (first >= found.length) first = 0;
    const last = all ? found.length : Math.min(first + size, found.length);
    found.forEach((row, index) => row.classList.toggle("later", !all && (index < first || index >= last)));
    if (table.tFoot) table.tFoot.hidden = words.length > 0;
    none.hidden = found.length > 0;
    pager.hidden = !isLong || found.length <= size;
    status.textContent = all ? `${found.length} rows` : `${first + 1}\u2013${last} of ${found.length}`;
    previous.hidden = next.hidden = all;
    previous.disabled = first === 0;
    next.disabled = last >= found.length;
    unfold.textContent = all ? "Show pages" : "Show all";
    return found.length;
  };
  const turn = (pages) => () => {
    first = Math.max(0, first + pages * size);
    refresh();
  };
  const previous = button("\u2039 Back", "back", turn(-1));
  const next = button("Next \u203a", "next", turn(1));
  const unfold = button("Show all", "all", () => {
    all = !all;
    first = 0;
    refresh();
  });

  heads.forEach((head, index) => {
    head.querySelector("button").addEventListener("click", () => {
      const usual = head.classList.contains("number") ? "descending" : "ascending";
      const other = usual === "ascending" ? "descending" : "ascending";
      const direction = head.getAttribute("aria-sort") === usual ? other : usual;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row.cells[index].textContent), row]);
      rows.sort((a, b) => sign * order(a[0], b[0]));
      body.append(...rows.map(([, row]) => row));
      first = 0;
      refresh();
    });
  });

  pager.className = "pager";
  status.setAttribute("role", "status");
  pager.append(previous, status, next, unfold);
  if (isLong) table.parentElement.after(pager);
  return {
    table,
    refresh: (fromStart) => {
      if (fromStart) first = 0;
      return refresh();
    },
  };
};

const tables = [...document.querySelectorAll("table")].map(setUp);

// With a filter only what matches is left; charts and the sums of tables are about everything, and wait.
const refresh = () => {
  const words = wanted();
  const found = new Map(tables.map((each) => [each.table, each.refresh(true)]));
  for (const figure of document.querySelectorAll("figure")) {
    figure.hidden = words.length > 0 && (figure.classList.contains("chart") || !matches(figure, words));
  }
  for (const section of sections) {
    const places = [...section.querySelectorAll(".table")];
    for (const place of places) place.hidden = words.length > 0 && !found.get(place.querySelector("table"));
    const isEmpty = ![...places, ...section.querySelectorAll("figure")].some((each) => !each.hidden);
    section.hidden = words.length > 0 && isEmpty;
    const link = document.querySelector(`nav a[href="#${CSS.escape(section.id)}"]`);
    if (link) link.parentElement.hidden = section.hidden;
  }
  const note = document.querySelector(".filtered");
  if (note) note.hidden = words.length === 0;
  const nothing = document.getElementById("nothing");
  if (nothing) nothing.hidden = sections.some((section) => !section.hidden);
};

// The address holds the filter, so that a link shows one policy, one owner or one namespace to whom it is sent.
const FILTER = "#filter=";
const follow = () => {
  const hash = location.hash;
  const row = hash.length > 1 && !hash.startsWith(FILTER) ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  const name = row?.dataset.policy;
  if (!name && !hash.startsWith(FILTER)) return;
  filter.value = name ? POLICY + name : decodeURIComponent(hash.slice(FILTER.length));
  refresh();
  filter.scrollIntoView({ block: "start" });
};
if (filter) {
  filter.addEventListener("input", () => {
    history.replaceState(null, "", filter.value ? FILTER + encodeURIComponent(filter.value) : location.pathname + location.search);
    refresh();
  });
  window.addEventListener("hashchange", follow);
  document.querySelector(".clear").addEventListener("click", () => {
    filter.value = "";
    history.replaceState(null, "", location.pathname + location.search);
    refresh();
    filter.focus();
  });
  document.querySelector(".page-filter").hidden = false;
}
refresh();
if (filter) follow();
