// Waits until the page has come to rest (loaded, nothing under way, no change for a while) or the time is over, and gives
// its document. Shadow roots are written where they show: their text in the element, slots filled.
((quietMs, limitMs, maxChars) => {
  const state = window[Symbol.for("plumbline.render")];
  const startedAt = performance.now();
  const atRest = (now) => !state || (state.timers.size === 0 && state.requests <= 0 && now - state.changedAt >= quietMs);

  const flatten = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return node.cloneNode(true);
    if (node.nodeName === "SLOT") {
      const assigned = node.assignedNodes();
      const slot = document.createDocumentFragment();
      (assigned.length ? assigned : [...node.childNodes]).forEach((child) => slot.append(flatten(child)));
      return slot;
    }
    const copy = node.cloneNode(node.nodeName === "TEMPLATE");
    if (node.nodeName !== "TEMPLATE") {
      const root = node.shadowRoot || state.roots.get(node);
      for (const child of (root || node).childNodes) {
        if (!(root && child.nodeName === "STYLE")) copy.append(flatten(child));
      }
    }
    return copy;
  };
  const written = () => {
    const whole = document.documentElement;
    if (!whole) return "";
    const root = state && state.roots.size ? flatten(whole) : whole;
    const kind = document.doctype ? `<!DOCTYPE ${document.doctype.name}>` : "";
    return (kind + root.outerHTML).slice(0, maxChars);
  };

  return new Promise((resolve) => {
    const look = () => {
      const now = performance.now();
      const isOver = now - startedAt >= limitMs;
      if (isOver || (document.readyState === "complete" && atRest(now))) {
        resolve({ html: written(), url: location.href });
      } else {
        later();
      }
    };
    // The timers as they were: those of the page are counted.
    const wait = state ? state.setTimeout : setTimeout;
    const later = () => wait.call(window, look, 25);
    look();
  });
})
