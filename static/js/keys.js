// Single keys: `?` lists them, `/` filters, `e` and `c` fold, `.` shows what waits. They can be switched off on this device.
const dialog = document.getElementById("keys");
const choice = dialog.querySelector("[data-keys-switch]");
const KEY = "fence.keys";
const ACTS = {
  "?": () => dialog.showModal(),
  "/": () => document.querySelector("[data-filters] input, [data-filters] select")?.focus(),
  e: () => fold(true),
  c: () => fold(false),
  ".": () => document.dispatchEvent(new CustomEvent("fence:show")),
};

function fold(open) {
  for (const one of document.querySelectorAll("details.fold, details.json-fold")) one.open = open;
}

function areOn() {
  try {
    return localStorage.getItem(KEY) !== "off";
  } catch {
    return true;
  }
}

choice.checked = areOn();
choice.addEventListener("change", () => {
  try {
    localStorage.setItem(KEY, choice.checked ? "on" : "off");
  } catch {
    // They stay on.
  }
});

for (const button of document.querySelectorAll("[data-open-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
}

// One listener for every module's single keys: it knows when a person types text, and when keys are off.
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1) return;
  if (event.target.closest("input, textarea, select, [contenteditable]") || dialog.open || !areOn()) return;
  const act = ACTS[event.key];
  if (act) {
    event.preventDefault();
    act();
  } else {
    document.dispatchEvent(new CustomEvent("fence:key", { detail: event.key }));
  }
});
