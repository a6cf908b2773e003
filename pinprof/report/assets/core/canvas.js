// Canvases in device pixels, text that fits, and the wheel. The plain wheel keeps scrolling; with Ctrl (or a pinch) it
// zooms, with Shift it pans.

const WHEEL_STEP = 0.0022;

/** Give a canvas a size in CSS pixels; its context, scaled to device pixels. */
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Make a canvas as wide as its box and as high as asked; its context, ready for text, and the width. */
export function fitCanvas(canvas, height) {
  const width = canvas.parentElement.clientWidth;
  const context = sizeCanvas(canvas, width, height);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  return [context, width];
}

/** The text cut to a width, or nothing where not even a few letters fit. */
export function fitText(context, text, width) {
  if (width < 18) return "";
  if (context.measureText(text).width <= width) return text;
  const letters = Math.floor((width / context.measureText(text).width) * text.length) - 2;
  return letters < 3 ? "" : `${text.slice(0, letters)}…`;
}

/** Call `zoom(factor, clientX)` and `pan(pixels)` as the wheel over a canvas says. */
export function watchWheel(canvas, zoom, pan) {
  const turned = (event) => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * WHEEL_STEP), event.clientX);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX || event.deltaY);
    else return;
    event.preventDefault();
  };
  canvas.addEventListener("wheel", turned, { passive: false });
}
