"use strict";
// A bar is one stop of the tab key; arrow keys move along it. What has the focus, or is under the pointer, is
// described in the line below. Everything that is said there stands in the tables as well.
for (const drawing of document.querySelectorAll(".drawing")) {
  const segments = [...drawing.querySelectorAll(".seg")];
  const readout = drawing.querySelector(".readout");
  const told = (event) => {
    const segment = event.target.closest(".seg");
    if (segment) readout.textContent = segment.querySelector("title").textContent;
    return segment;
  };
  // Not on the picture itself: browsers make one that listens for the focus a stop of its own.
  drawing.addEventListener("pointerover", told);
  drawing.addEventListener("focusin", (event) => {
    const segment = told(event);
    if (!segment) return;
    for (const one of segments) one.setAttribute("tabindex", one === segment ? "0" : "-1");
  });
  drawing.addEventListener("keydown", (event) => {
    const at = segments.indexOf(event.target.closest(".seg"));
    const last = segments.length - 1;
    const next = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last}[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    segments[Math.min(last, Math.max(0, next))].focus();
  });
}
