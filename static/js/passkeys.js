// Passkeys: buttons that appear where the browser knows them, and say what went wrong. The ceremony itself is
// django-allauth's, whose scripts come out of its package.
const CANCELLED = "Nothing was used: the browser was closed, refused, or took too long. Try again.";
const FAILED = "The browser could not do it here: ";

const forms = window.allauth?.webauthn?.forms;
const ids = { credential: "passkey-credential", data: "passkey-data" };
const WIRES = {
  add: () => forms.addForm({ ids: { ...ids, add: "passkey-button", passwordless: "id_passwordless" } }),
  authenticate: () => forms.authenticateForm({ ids: { ...ids, authenticate: "passkey-button" } }),
  login: () => forms.loginForm({ ids: { ...ids, login: "passkey-button" } }),
};

const form = document.querySelector("form[data-passkey]");
if (form && forms && window.PublicKeyCredential) {
  WIRES[form.dataset.passkey]();
  form.hidden = false;
  document.querySelector("[data-passkey-none]")?.remove();
}

document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  const fault = form?.querySelector("[data-passkey-fault]");
  if (!fault) return;
  const { exception } = event.detail;
  const isCancelled = ["NotAllowedError", "AbortError"].includes(exception?.name);
  fault.textContent = isCancelled ? CANCELLED : `${FAILED}${exception?.message ?? exception}`;
  fault.hidden = false;
});
