"use strict";
// Arrow keys turn pages, "/" goes to the search field, and a picture that cannot be shown says so.
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = { ArrowLeft: "a.back", ArrowRight: "a.forth" }[event.key];
  if (link) document.querySelector(link)?.click();
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  }
});
function missing(image) {
  const words = document.createElement("span");
  words.className = "missing";
  words.textContent = "no picture";
  image.replaceWith(words);
}
for (const image of document.querySelectorAll("img")) {
  if (image.complete && image.src && !image.naturalWidth && image.loading !== "lazy") missing(image);
  image.addEventListener("error", () => missing(image));
}
