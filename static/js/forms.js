// Forms behind a button: what was typed survives an error, a refresh and a lost connection; nothing is sent twice.
const PREFIX = "fence.form:";

function keyOf(form) {
  const seen = [...form.querySelectorAll("[data-seen]")].map((input) => `${input.name}=${input.value}`).join("&");
  return `${PREFIX}${location.pathname}#${form.dataset.keep}?${seen}`;
}

function typed(form) {
  return [...form.elements].filter((one) => one.name && !["hidden", "password", "submit", "file"].includes(one.type));
}

function store(form, isSent = false) {
  const values = typed(form).map((one) => [one.name, one.value, one.checked ?? false]);
  try {
    sessionStorage.setItem(keyOf(form), JSON.stringify({ values, isSent }));
  } catch {
    // Then it is kept by the browser's own history alone.
  }
}

function stored(form) {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(form))) || { values: [], isSent: false };
  } catch {
    return { values: [], isSent: false };
  }
}

// It was sent, and the page that came has nothing to say against it: done. Who comes back from the browser's page for a
// lost connection does so through the history.
function isDone(form, isSent) {
  const [navigation] = performance.getEntriesByType("navigation");
  return isSent && navigation?.type !== "back_forward" && !form.querySelector(".error, .conflict");
}

function restore(form) {
  const { values, isSent } = stored(form);
  if (isDone(form, isSent)) {
    sessionStorage.removeItem(keyOf(form));
    return;
  }
  for (const [name, value, checked] of values) {
    for (const one of typed(form).filter((each) => each.name === name)) {
      if (one.type === "radio") one.checked = one.value === value ? checked : one.checked;
      else if (one.type === "checkbox") one.checked = one.value === value ? checked : one.checked;
      else if (!one.value) one.value = value;
    }
  }
  if (values.some(([, value, checked]) => value || checked)) form.closest("details")?.setAttribute("open", "");
}

for (const form of document.querySelectorAll("form[data-keep]")) restore(form);

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-keep]");
  if (form) store(form);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  if (form.method !== "post") return;
  form.dataset.sent = "yes";
  if (form.dataset.keep) store(form, true);
  form.querySelector("button[type=submit]")?.setAttribute("aria-disabled", "true");
});

// Back from the history: the form can be sent again, and the server says what is true now.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    form.querySelector("button[type=submit]")?.removeAttribute("aria-disabled");
  }
});

document.addEventListener("toggle", (event) => {
  if (event.target.matches("details[data-act]") && event.target.open) {
    const fields = [...event.target.querySelectorAll("form :is(input:not([type=hidden]), textarea, select)")];
    (fields.find((field) => field.required && !field.value) ?? fields[0])?.focus();
  }
}, true);
document.addEventListener("keydown", (event) => {
  const act = event.key === "Escape" && event.target.closest("details[data-act][open]");
  if (!act) return;
  act.open = false;
  act.querySelector("summary").focus();
});
