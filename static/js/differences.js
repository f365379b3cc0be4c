// Walks the differences of a page (`data-diff`) with n and p, and counts them (`data-diff-count`).
let current = -1;

function walk(step) {
  const all = [...document.querySelectorAll("[data-diff]")];
  if (!all.length) return;
  current = (current + step + all.length) % all.length;
  const target = all[current];
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    if (!target.matches("summary") || fold !== target.parentElement) fold.open = true;
  }
  if (target.tabIndex < 0 && !target.hasAttribute("tabindex")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "center" });
  tell(all.length);
}

function tell(total) {
  const words = `difference ${current + 1} of ${total}`;
  for (const place of document.querySelectorAll("[data-diff-count]")) place.textContent = words;
  document.getElementById("say").textContent = words;
}

document.addEventListener("fence:key", (event) => {
  if (event.detail === "n") walk(1);
  if (event.detail === "p") walk(-1);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-diff-walk]");
  if (button) walk(button.dataset.diffWalk === "next" ? 1 : -1);
});
