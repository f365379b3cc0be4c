// Draws the figures when they come near: Plotly's script is big, and most readers look at the sentence first.
const CONFIG = { displayModeBar: false, responsive: true, showTips: false, doubleClick: false, scrollZoom: false };
// Plotly carries a map library that adds a style element of this id when it loads. Maps are not used here, and inline
// styles are forbidden: where the id is taken, it adds nothing. A new Plotly may have a new id; the browser tests see it.
const STYLE_OF_MAPS = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
let script = null;

function plotly(source) {
  script ||= new Promise((resolve, reject) => {
    const taken = document.createElement("template");
    taken.id = STYLE_OF_MAPS;
    const element = document.createElement("script");
    element.src = source;
    element.onload = () => resolve(window.Plotly);
    element.onerror = () => reject(new Error("Plotly did not load"));
    document.head.append(taken, element);
  });
  return script;
}

// `var(--good)` in a figure is a token of the theme.
function dressed(value, style) {
  if (typeof value === "string") {
    return value.replace(/^var\((--[a-z0-9-]+)\)$/, (_, name) => style.getPropertyValue(name).trim());
  }
  if (Array.isArray(value)) return value.map((one) => dressed(one, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, dressed(one, style)]));
  }
  return value;
}

async function draw(place) {
  const spec = JSON.parse(document.getElementById(place.dataset.plot).textContent);
  const style = getComputedStyle(document.documentElement);
  const { data, layout } = dressed(spec, style);
  layout.font = { family: style.getPropertyValue("--sans").trim(), ...layout.font };
  try {
    const library = await plotly(place.dataset.plotly);
    await library.react(place, data, layout, CONFIG);
    place.dataset.drawn = "yes";
  } catch {
    place.textContent = "The figure could not be drawn; the table beneath says the same.";
    place.classList.add("plot-failed");
  }
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    near.unobserve(entry.target);
    draw(entry.target);
  }
}, { rootMargin: "200px" });

function watch(within) {
  for (const place of within.querySelectorAll("[data-plot]:not([data-drawn])")) near.observe(place);
}

watch(document);
document.addEventListener("fence:fresh", (event) => watch(event.target));
document.addEventListener("fence:theme", () => {
  for (const place of document.querySelectorAll("[data-plot][data-drawn]")) draw(place);
});
