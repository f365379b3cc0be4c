// The theme switch: follows the system, light, dark. The choice is kept on this device.
const WORDS = { auto: "System", light: "Light", dark: "Dark" };
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const root = document.documentElement;

function chosen() {
  return root.dataset.theme || "auto";
}

function choose(theme) {
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    localStorage.setItem("fence.theme", theme);
  } catch {
    // It holds for this page alone.
  }
  tell();
  document.dispatchEvent(new CustomEvent("fence:theme"));
}

function tell() {
  for (const button of document.querySelectorAll("[data-theme-switch]")) {
    button.hidden = false;
    button.querySelector("[data-theme-word]").textContent = WORDS[chosen()];
    button.setAttribute("aria-label", `Theme: ${WORDS[chosen()]}. Change to ${WORDS[NEXT[chosen()]]}`);
  }
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-switch]")) choose(NEXT[chosen()]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new CustomEvent("fence:theme"));
});
tell();
