// Sets the chosen theme before anything is drawn. Loaded without `defer`, so it stays this small.
try {
  const chosen = localStorage.getItem("fence.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is forbidden here: the system's theme it is.
}
