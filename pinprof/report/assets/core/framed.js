// A page inside a frame, as in a notebook, cannot be measured from outside: it says how tall its content is.

export function startFramed() {
  if (window.parent === window) return;
  new ResizeObserver(() => {
    window.parent.postMessage({ pinprofHeight: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  }).observe(document.body);
}
