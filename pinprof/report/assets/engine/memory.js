// Memory for columns, used repeatedly: what is handed on needs no collector, which lets tens of megabytes pile up.

const SCRATCH = new Map();
const MOST_SPARE = 48;
const spare = [];

/** A column that every answer needs and none keeps. */
export function scratch(name, Type, size, value) {
  let array = SCRATCH.get(name);
  if (!array || array.length < size) {
    array = new Type(size);
    SCRATCH.set(name, array);
  }
  return array.subarray(0, size).fill(value);
}

/** A column that an answer keeps, with any content: memory of an answer that nobody needs any more, or new. */
export function column(Type, size) {
  const bytes = size * Type.BYTES_PER_ELEMENT;
  let best = -1;
  for (let index = 0; index < spare.length; index += 1) {
    const there = spare[index].byteLength;
    if (there >= bytes && (best < 0 || there < spare[best].byteLength)) best = index;
  }
  const [buffer] = best < 0 ? [new ArrayBuffer(bytes)] : spare.splice(best, 1);
  return new Type(buffer, 0, size);
}

/** Take back the memory of an answer's columns. */
export function recycle(buffers) {
  spare.push(...buffers);
  if (spare.length > MOST_SPARE) spare.splice(0, spare.length - MOST_SPARE);
}
