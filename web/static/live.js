// Keeps the figures of a running crawl fresh: asks for the page again and puts its parts in place, unless the reader is
// busy in them. Without this script the page is reloaded by itself.
"use strict";
const PAUSE_MS = 3000;

function isBusy(part) {
  const active = document.activeElement;
  return (active && active !== document.body && part.contains(active)) || String(getSelection()) !== "";
}

async function refresh() {
  const part = document.querySelector("[data-live]");
  if (!part || document.hidden || isBusy(part)) return true;
  const answer = await fetch(location.href, { headers: { "X-Live": "1" }, redirect: "error" });
  if (!answer.ok) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const replacement = fresh.querySelector("[data-live]");
  if (!replacement) return false;
  const open = new Set([...part.querySelectorAll("details[open]")].map((details) => details.id));
  for (const details of replacement.querySelectorAll("details")) details.open = open.has(details.id);
  part.replaceWith(replacement);
  return fresh.querySelector('script[src*="live.js"]') !== null;
}

async function loop() {
  let goOn = true;
  try {
    goOn = await refresh();
  } catch {
    goOn = true; // The portal is away for a moment; the next round may find it.
  }
  if (goOn) setTimeout(loop, PAUSE_MS);
}

setTimeout(loop, PAUSE_MS);
