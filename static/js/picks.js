// A list whose rows are chosen by boxes: all or one by one; the button says how many.
for (const form of document.querySelectorAll("form[data-picks]")) {
  const all = form.querySelector("[data-pick-all]");
  const boxes = [...form.querySelectorAll("[data-pick]")];
  const place = form.querySelector("[data-picked]");
  const tell = () => {
    const count = boxes.filter((box) => box.checked).length;
    if (place) place.textContent = String(count);
    if (!all) return;
    all.checked = count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  };
  form.addEventListener("change", (event) => {
    if (event.target === all) {
      for (const box of boxes) box.checked = all.checked;
    }
    tell();
  });
  tell();
}
