// Put into every frame before its own scripts. Lets nothing wait for a person, and counts what the page still waits for:
// the crawler asks (see settle.js) whether the page has come to rest.
(() => {
  const key = Symbol.for("plumbline.render");
  if (window[key]) return;
  const SOON_MS = 1500;
  const MAX_CHAIN = 4;
  const MAX_DIALOGS = 20;
  const { setTimeout, clearTimeout, performance } = window;
  const state = { timers: new Set(), requests: 0, changedAt: performance.now(), roots: new Map(), setTimeout };
  Object.defineProperty(window, key, { value: state });

  // Dialogs answer themselves; a page that asks without end is stopped by an exception.
  let dialogs = 0;
  const answer = (value) => () => {
    if (++dialogs <= MAX_DIALOGS) return value;
    dialogs = 0;
    throw new Error("too many dialogs");
  };
  window.alert = answer(undefined);
  window.confirm = answer(false);
  window.prompt = answer(null);
  window.print = () => undefined;
  window.open = () => null;
  window.close = () => undefined;
  window.showModalDialog = undefined;
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "Notification"]) {
    try { delete window[name]; } catch { /* not deletable: it stays */ }
  }

  // Timers that fire soon are waited for; one that sets itself again and again only a few times.
  let chain = 0;
  window.setTimeout = function (callback, delay, ...args) {
    const level = chain + 1;
    const counts = typeof callback === "function" && !(delay > SOON_MS) && level <= MAX_CHAIN;
    if (!counts) return setTimeout.call(window, callback, delay, ...args);
    const id = setTimeout.call(window, function (...given) {
      state.timers.delete(id);
      const outer = chain;
      chain = level;
      try { return callback.apply(this, given); } finally { chain = outer; }
    }, delay, ...args);
    state.timers.add(id);
    return id;
  };
  window.clearTimeout = (id) => {
    state.timers.delete(id);
    clearTimeout.call(window, id);
  };

  // Requests that are under way are waited for.
  const begin = () => {
    let open = true;
    state.requests += 1;
    return () => {
      if (open) state.requests -= 1;
      open = false;
      state.changedAt = performance.now();
    };
  };
  const { fetch } = window;
  if (fetch) {
    window.fetch = function (...args) {
      const done = begin();
      const answered = fetch.apply(this, args);
      answered.then((response) => response.clone().arrayBuffer().then(done, done), done);
      return answered;
    };
  }
  const { send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.send = function (...args) {
    const done = begin();
    this.addEventListener("loadend", done, { once: true });
    try { return send.apply(this, args); } catch (error) { done(); throw error; }
  };

  // Changes of the document; scripts put into it are requests too.
  new MutationObserver((records) => {
    state.changedAt = performance.now();
    for (const record of records) {
      for (const node of record.addedNodes) {
        if (node.nodeName !== "SCRIPT" || !node.src || document.readyState === "loading") continue;
        const done = begin();
        node.addEventListener("load", done, { once: true });
        node.addEventListener("error", done, { once: true });
        setTimeout.call(window, done, SOON_MS);
      }
    }
  }).observe(document, { childList: true, subtree: true, characterData: true });

  // Shadow roots, closed ones too, are remembered, so that their text can be read.
  const { attachShadow } = Element.prototype;
  Element.prototype.attachShadow = function (init) {
    const root = attachShadow.call(this, init);
    state.roots.set(this, root);
    state.changedAt = performance.now();
    new MutationObserver(() => { state.changedAt = performance.now(); })
      .observe(root, { childList: true, subtree: true, characterData: true });
    return root;
  };
})();
