"use strict";
// Arrow keys turn pages, and "/" goes to the search field.
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = { ArrowLeft: "a.back", ArrowRight: "a.forth" }[event.key];
  if (link) document.querySelector(link)?.click();
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  }
});
