// Fields that hold JSON say while one types whether it is well formed, and where it is not. The server decides.

const WAIT_MS = 300;

function place(text, message) {
  const told = /line (\d+) column (\d+)/.exec(message);
  if (told) return `line ${told[1]}, column ${told[2]}`;
  const at = /position (\d+)/.exec(message);
  if (!at) return "at its end";
  const before = text.slice(0, Number(at[1])).split("\n");
  return `line ${before.length}, column ${before.at(-1).length + 1}`;
}

function told(text) {
  if (!text.trim()) return { says: "Empty.", wrong: false };
  try {
    JSON.parse(text);
    return { says: "Well-formed JSON.", wrong: false };
  } catch (fault) {
    return { says: `Not JSON yet: ${place(text, fault.message)}.`, wrong: true };
  }
}

for (const field of document.querySelectorAll("textarea[data-json]")) {
  const state = document.createElement("p");
  state.className = "json-state";
  state.setAttribute("role", "status");
  field.after(state);
  let waits = 0;
  field.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(() => {
      const { says, wrong } = told(field.value);
      state.textContent = says;
      state.classList.toggle("wrong", wrong);
    }, WAIT_MS);
  });
}
