// The way from a message to its object: sent on as soon as a person really looks at it, not when a browser guesses ahead.
function go() {
  if (document.visibilityState !== "visible" || document.prerendering) return;
  const form = document.querySelector("form[data-onward]");
  if (form && !form.dataset.sent) form.requestSubmit();
}

document.addEventListener("visibilitychange", go);
document.addEventListener("prerenderingchange", go);
go();
