// Live parts: read again every few seconds by a conditional request, and put in place so that nothing moves that a
// person points at, has focused or has selected. What cannot be put in place waits, and says so.
//
// A part (`data-live`) is read by htmx from the address of its page. Its body either is
//   a list: an element with `data-rows` whose children carry `data-row`: known rows are renewed where they stand, those
//   that are no longer there say so, new ones wait behind "3 new"; or
//   anything else: replaced as a whole, once the pointer, the focus and the selection are elsewhere.
// A part that follows a form (`hx-include`) is put in place at once when somebody typed: what it says must fit the form.
// What such a part says elsewhere on the page comes in it as `<template data-for="id">`.
const parts = new Map(); // id → {fresh, tag, failures, skip, isTyped}
const sources = new WeakMap(); // row → the HTML that it was made from, before anything dressed it
let pointer = null;

function stateOf(part) {
  if (!parts.has(part.id)) parts.set(part.id, { fresh: null, tag: part.dataset.tag, failures: 0, skip: 0, isTyped: false });
  return parts.get(part.id);
}

// --- asking

document.addEventListener("htmx:configRequest", (event) => {
  const part = event.target.closest("[data-live]");
  if (!part) return;
  const state = stateOf(part);
  event.detail.headers["If-None-Match"] = state.tag;
  if (["input", "change"].includes(event.detail.triggeringEvent?.type)) state.isTyped = true;
});

document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target.closest("[data-live]");
  if (!part) return;
  const state = stateOf(part);
  // Nobody looks, or it just failed: after n failures every 2ⁿth try is made, 32 at most. Who types is not kept waiting.
  if (document.hidden || (state.skip-- > 0 && !state.isTyped)) event.preventDefault();
});

document.addEventListener("input", (event) => {
  for (const part of document.querySelectorAll("[data-live][hx-include]")) {
    if (event.target.closest(part.getAttribute("hx-include"))) part.classList.add("behind");
  }
});

function wake() {
  if (document.hidden) return;
  for (const part of document.querySelectorAll("[data-live]")) {
    stateOf(part).skip = 0;
    part.dispatchEvent(new CustomEvent("wake"));
  }
}

document.addEventListener("visibilitychange", wake);
document.addEventListener("fence:wake", wake);

// --- answers

document.addEventListener("htmx:beforeOnLoad", (event) => {
  const part = event.target.closest("[data-live]");
  if (!part) return;
  event.preventDefault();
  const { xhr } = event.detail;
  if (xhr.status === 200) take(part, xhr.responseText, xhr.getResponseHeader("ETag"));
  if (xhr.status === 200 || xhr.status === 304) succeeded(part, xhr.getResponseHeader("Fence-Now"));
  else failed(part, xhr.status === 401 ? "you are signed out: reload the page" : `answered ${xhr.status}`);
});

for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, (event) => {
    const part = event.target.closest("[data-live]");
    if (part) failed(part, "no answer");
  });
}

function succeeded(part, now) {
  Object.assign(stateOf(part), { failures: 0, skip: 0, isTyped: false });
  part.classList.remove("failing", "behind");
  const at = now ? new Date(now) : new Date();
  if (now) document.dispatchEvent(new CustomEvent("fence:clock", { detail: now }));
  const line = part.querySelector("[data-live-state]");
  line.dataset.liveState = at.toISOString();
  line.textContent = `read ${clock(at)}`;
}

function failed(part, why) {
  const state = stateOf(part);
  state.failures += 1;
  state.skip = 2 ** Math.min(state.failures, 5) - 1;
  part.classList.add("failing");
  const line = part.querySelector("[data-live-state]");
  line.textContent = `last read ${clock(new Date(line.dataset.liveState))}; ${why}. Trying again.`;
}

function clock(at) {
  return `${at.toISOString().slice(11, 19)} UTC`;
}

// --- putting in place

function take(part, html, tag) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  Object.assign(stateOf(part), { fresh, tag });
  if (fresh.content.querySelector("[data-rows]") && part.querySelector("[data-rows]")) renewRows(part, fresh);
  else settle(part);
}

function renewRows(part, fresh) {
  const list = part.querySelector("[data-rows]");
  const known = new Map([...list.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
  let added = 0;
  for (const row of fresh.content.querySelectorAll("[data-row]")) {
    const old = known.get(row.dataset.row);
    known.delete(row.dataset.row);
    if (!old) added += 1;
    else if (!isInUse(old)) replaceRow(old, row.cloneNode(true));
  }
  for (const row of known.values()) markGone(row);
  offer(part, added, known.size ? `${known.size} gone` : "");
}

// It was live when it was read, and may be no more: it must not look as if it still were.
function markGone(row) {
  if (row.classList.contains("gone")) return;
  row.classList.add("gone");
  sources.delete(row);
  const note = document.createElement("span");
  note.className = "gone-note";
  note.textContent = "no longer in this list";
  (row.matches("tr") ? row.firstElementChild : row)?.append(note);
}

function replaceRow(old, row) {
  if (sources.get(old) === row.outerHTML) return;
  sources.set(row, row.outerHTML);
  hold(() => old.replaceWith(row));
  announce(row);
}

function settle(part) {
  const { fresh } = stateOf(part);
  if (!fresh) return;
  const body = part.querySelector("[data-live-body]");
  if (isInUse(body) && !stateOf(part).isTyped) offer(part, 0, "newer waits");
  else show(part);
}

function show(part) {
  const state = stateOf(part);
  if (!state.fresh) return;
  const body = part.querySelector("[data-live-body]");
  const opened = new Set([...body.querySelectorAll("details[id][open]")].map((fold) => fold.id));
  const closed = new Set([...body.querySelectorAll("details[id]:not([open])")].map((fold) => fold.id));
  for (const fold of state.fresh.content.querySelectorAll("details[id]")) {
    if (opened.has(fold.id)) fold.open = true;
    if (closed.has(fold.id)) fold.open = false;
  }
  for (const told of state.fresh.content.querySelectorAll("template[data-for]")) {
    const place = document.getElementById(told.dataset.for);
    place?.replaceChildren(told.content.cloneNode(true));
    if (place) announce(place);
  }
  hold(() => body.replaceChildren(state.fresh.content), body);
  state.fresh = null;
  offer(part, 0);
  announce(body);
}

function announce(element) {
  if (window.htmx) window.htmx.process(element);
  element.dispatchEvent(new CustomEvent("fence:fresh", { bubbles: true }));
}

function offer(part, added, words = "") {
  const button = part.querySelector("[data-live-show]");
  const text = added ? `${added} new` : words;
  button.hidden = !text;
  if (text && button.textContent !== text) {
    button.textContent = text;
    document.getElementById("say").textContent = text;
  }
}

// Changes the page and keeps what a person points at or has focused where it is in the window: a part that grows is
// scrolled away, one that shrinks keeps its height, and a page that is too short to scroll so far is made longer.
function hold(change, body = null) {
  const anchor = anchorOutside(body);
  if (body) body.style.minHeight = anchor ? `${body.getBoundingClientRect().height}px` : "";
  const before = anchor?.getBoundingClientRect().top;
  change();
  if (!anchor?.isConnected) return;
  const moved = () => anchor.getBoundingClientRect().top - before;
  scrollBy(0, moved());
  if (moved() < 1) return;
  const page = document.scrollingElement;
  document.body.style.minHeight = `${page.scrollHeight + moved()}px`;
  scrollBy(0, moved());
}

function anchorOutside(body) {
  const focused = document.activeElement;
  const candidates = [pointer && document.elementFromPoint(pointer.x, pointer.y), focused !== document.body && focused];
  return candidates.find((element) => element && !body?.contains(element)) || null;
}

function isInUse(element) {
  if (pointer && element.contains(document.elementFromPoint(pointer.x, pointer.y))) return true;
  if (element.contains(document.activeElement)) return true;
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && selection.containsNode(element, true));
}

// --- people

addEventListener("pointermove", (event) => {
  pointer = event.pointerType === "touch" ? null : { x: event.clientX, y: event.clientY };
  settleAll();
}, { passive: true });
addEventListener("pointerdown", (event) => {
  pointer = { x: event.clientX, y: event.clientY };
}, { passive: true });
for (const name of ["pointerup", "pointercancel"]) {
  addEventListener(name, (event) => {
    if (event.pointerType === "touch") pointer = null;
  }, { passive: true });
}
document.documentElement.addEventListener("pointerleave", () => {
  pointer = null;
  settleAll();
});
document.addEventListener("focusout", () => setTimeout(settleAll));

function settleAll() {
  for (const part of document.querySelectorAll("[data-live]")) {
    if (stateOf(part).fresh && !part.querySelector("[data-rows]")) settle(part);
  }
}

function showAll() {
  for (const part of document.querySelectorAll("[data-live]")) show(part);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-live-show]");
  if (!button) return;
  const part = button.closest("[data-live]");
  show(part);
  part.setAttribute("tabindex", "-1");
  part.focus({ preventScroll: true });
});
document.addEventListener("fence:show", showAll);
