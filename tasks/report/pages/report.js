"use strict";
// Search, choice and pages of a sheet of cards. Without this script all cards are shown.
function start(sheet) {
  const cards = [...sheet.querySelectorAll(".card")].map((card) => ({
    card, text: card.textContent.toLowerCase(), choice: card.dataset.choice,
  }));
  const form = sheet.querySelector("form");
  const [back, forth, output] = [".back", ".forth", "output"].map((name) => form.querySelector(name));
  const size = Number(sheet.dataset.pageSize);
  let page = 0;
  function show() {
    const text = form.elements.text.value.trim().toLowerCase();
    const choice = form.elements.choice ? form.elements.choice.value : "";
    const found = cards.filter((one) => one.text.includes(text) && (!choice || one.choice === choice));
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const one of cards) one.card.hidden = !shown.has(one);
    output.textContent = `${found.length} found, page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    forth.disabled = page === pages - 1;
  }
  form.addEventListener("input", () => { page = 0; show(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  back.addEventListener("click", () => { page -= 1; show(); });
  forth.addEventListener("click", () => { page += 1; show(); });
  show();
}
document.querySelectorAll(".sheet").forEach(start);
