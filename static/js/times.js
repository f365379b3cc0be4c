// Adds to each moment in UTC what it is here, and how long ago; renews the ages; counts down to what ends.
// The server's clock is the base: this machine's may be wrong, may have been set, and may have slept. After a sleep or a
// change no remaining time is told until the server told the time anew.
const EVERY_MS = 5000;
const TICK_MS = 1000;
const SLEPT_MS = 3000;
const root = document.documentElement;
const here = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hereWithDay = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
let ahead = 0;
let isSure = true;
let last = { wall: Date.now(), steady: performance.now() };

function serverNow() {
  return Date.now() + ahead;
}

function setClock(text) {
  const told = Date.parse(text);
  if (Number.isNaN(told)) return;
  ahead = told - Date.now();
  isSure = true;
}

function age(ms) {
  const seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds < 5) return "now";
  const [unit, size] = UNITS.find(([, each]) => seconds >= each);
  const words = `${Math.floor(seconds / size)} ${unit}`;
  return ms < 0 ? `in ${words}` : `${words} ago`;
}

function dayOf(moment) {
  return moment.toISOString().slice(0, 10);
}

function dress(time) {
  const moment = new Date(time.getAttribute("datetime"));
  if (Number.isNaN(moment.getTime())) return;
  if (!time.querySelector(".ago")) {
    if (time.dataset.moment === "full") time.append(span("here", ` · ${local(moment)}`));
    time.append(span("ago", ""));
  }
  const words = ` · ${age(serverNow() - moment.getTime())}`;
  const place = time.querySelector(".ago");
  if (place.textContent !== words) place.textContent = words;
}

function local(moment) {
  const isSameDay = dayOf(moment) === dayOf(new Date(serverNow()));
  return `${(isSameDay ? here : hereWithDay).format(moment)} here`;
}

function span(name, text) {
  const made = document.createElement("span");
  made.className = name;
  made.textContent = text;
  return made;
}

function dressAll(within = document) {
  for (const time of within.querySelectorAll("time[data-moment]")) dress(time);
}

// --- what is left

function left(ms) {
  const whole = Math.floor(ms / 1000);
  const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

function countDown(time) {
  const end = Date.parse(time.dataset.until);
  const place = time.querySelector("[data-left]");
  if (Number.isNaN(end) || !place) return;
  const remains = end - serverNow();
  const words = !isSure ? "asking the server…" : remains > 0 ? `${left(remains)} left` : "time is up";
  if (place.textContent !== words) place.textContent = words;
  time.classList.toggle("over", isSure && remains <= 0);
  fill(time, isSure ? remains : 0);
  // The server alone knows what it is now.
  if (isSure && remains <= 0 && !time.dataset.asked) {
    time.dataset.asked = "yes";
    document.dispatchEvent(new CustomEvent("fence:wake"));
  }
}

function fill(time, remains) {
  const bar = time.querySelector("rect[data-of]");
  const share = bar && Math.max(0, Math.min(1, remains / (1000 * Number(bar.dataset.of))));
  bar?.setAttribute("width", String(Math.round(share * 100)));
}

function countAll(within = document) {
  for (const time of within.querySelectorAll("time[data-until]")) countDown(time);
}

function tick() {
  const now = { wall: Date.now(), steady: performance.now() };
  const passed = { wall: now.wall - last.wall, steady: now.steady - last.steady };
  last = now;
  const isChanged = Math.abs(passed.wall - passed.steady) > SLEPT_MS || passed.wall > TICK_MS + SLEPT_MS;
  if (isChanged) {
    isSure = false;
    document.dispatchEvent(new CustomEvent("fence:wake"));
  }
  if (!document.hidden) countAll();
}

setClock(root.dataset.now);
dressAll();
countAll();
setInterval(() => document.hidden || dressAll(), EVERY_MS);
setInterval(tick, TICK_MS);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  tick();
  dressAll();
});
document.addEventListener("fence:fresh", (event) => {
  dressAll(event.target);
  countAll(event.target);
});
document.addEventListener("fence:clock", (event) => {
  setClock(event.detail);
  countAll();
});
