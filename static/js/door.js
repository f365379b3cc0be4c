// The place within a page (`#acts`) is known to the browser alone: the forms of the door carry it on.
if (location.hash) {
  for (const next of document.querySelectorAll("form[data-carries-place] input[name=next]")) {
    if (!next.value.includes("#")) next.value += location.hash;
  }
}

// Whoever stands here sent a form that was not taken, if any: what they typed is still theirs to send.
for (const name of Object.keys(sessionStorage).filter((each) => each.startsWith("fence.form:"))) {
  try {
    sessionStorage.setItem(name, JSON.stringify({ ...JSON.parse(sessionStorage.getItem(name)), isSent: false }));
  } catch {
    sessionStorage.removeItem(name);
  }
}
