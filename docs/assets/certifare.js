// Whatever scrolls can be reached with the keyboard, and what is a landmark has a name.
const katexFolder = new URL("katex/", document.currentScript.src);
document$.subscribe(() => {
  document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((box, i) => {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `Table ${i + 1}, scrolls sideways`);
    }
  });
  // Formulas: KaTeX is part of the site, and loaded by pages that have some.
  const formulas = document.querySelectorAll(".arithmatex");
  if (!formulas.length) return;
  const typeset = () => formulas.forEach((box) => {
    const display = box.tagName === "DIV";
    katex.render(box.textContent.trim().slice(2, -2), box, {displayMode: display, throwOnError: true});
    const drawn = box.querySelector(".katex-display");
    if (drawn && drawn.scrollWidth > drawn.clientWidth) drawn.tabIndex = 0;
  });
  if (window.katex) return typeset();
  const style = Object.assign(document.createElement("link"), {rel: "stylesheet", href: new URL("katex.min.css", katexFolder)});
  const script = Object.assign(document.createElement("script"), {src: new URL("katex.min.js", katexFolder), onload: typeset});
  document.head.append(style, script);
});
