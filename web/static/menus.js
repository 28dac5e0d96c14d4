// Menus made of <details>: a click elsewhere or Escape closes them. Without this script they open and close by themselves.
"use strict";
const openMenus = () => document.querySelectorAll(".filters details[open]");
document.addEventListener("click", (event) => {
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
