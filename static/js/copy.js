// Copies what a `data-copy` button holds, and says so.
const SHOWN_MS = 1500;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const said = await put(button.dataset.copy);
  document.getElementById("say").textContent = said ? "Copied." : "The browser did not let it be copied.";
  if (!said) return;
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), SHOWN_MS);
});

async function put(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
