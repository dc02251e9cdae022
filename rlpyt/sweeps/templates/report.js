for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[at].dataset.order ?? row.cells[at].textContent;
    const compare = (a, b) => {
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      const order = key(a).localeCompare(key(b), "en", { numeric: true }) ||
        (key(a) < key(b) ? -1 : 1);  // as "0.01" and "0.1" count as equal
      const numbers = Number(key(a)) - Number(key(b));
      return (up ? 1 : -1) * (Number.isNaN(numbers) ? order : numbers);
    };
    body.append(...[...body.rows].sort(compare));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}
