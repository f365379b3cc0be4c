// Shows the exact form (`data-exact`) of what is focused or under the pointer, beside it and inside the window.
const GAP = 6;
const box = document.getElementById("exact");
let shownFor = null;

function show(target) {
  if (!target.isConnected) {
    hide();
    return;
  }
  shownFor = target;
  box.textContent = target.dataset.exact;
  box.hidden = false;
  const around = target.getBoundingClientRect();
  const own = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(around.left, document.documentElement.clientWidth - own.width - 8));
  const fitsBelow = around.bottom + GAP + own.height < innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${fitsBelow ? around.bottom + GAP : Math.max(8, around.top - GAP - own.height)}px`;
}

function hide() {
  shownFor = null;
  box.hidden = true;
}

function at(event) {
  return event.target instanceof Element ? event.target.closest("[data-exact]") : null;
}

document.addEventListener("focusin", (event) => {
  const target = at(event);
  if (target && target.matches(":focus-visible")) show(target);
  else hide();
});
document.addEventListener("focusout", hide);
document.addEventListener("pointerover", (event) => {
  const target = at(event);
  if (target) show(target);
  // The pointer may go over to the exact text itself, to read on.
  else if (shownFor && !shownFor.contains(document.activeElement) && !box.contains(event.target)) hide();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
});
addEventListener("scroll", () => shownFor && show(shownFor), { passive: true, capture: true });
