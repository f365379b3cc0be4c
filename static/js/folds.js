// Opens the fold that an address points into (`#audit`), and keeps the folds that a person opened while they stay on a page.
const KEY = `fence.folds:${location.pathname}`;

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView();
}

for (const [id, open] of Object.entries(read())) {
  const fold = document.getElementById(id);
  if (fold instanceof HTMLDetailsElement) fold.open = open;
}
openTarget();
addEventListener("hashchange", openTarget);
document.addEventListener("toggle", (event) => {
  const fold = event.target;
  if (!fold.id || !fold.matches("details.fold")) return;
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...read(), [fold.id]: fold.open }));
  } catch {
    // They start closed next time.
  }
}, true);
