// Typed arrays as the page carries them (report/flame.py): gzip, column after column, each byte plane by byte plane.

const TYPES = { Uint8: Uint8Array, Int16: Int16Array, Int32: Int32Array, Float64: Float64Array };

export async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** Column name → typed array; `layout` lists [name, type, length] in the order of the bytes. */
export function unpackColumns(buffer, layout) {
  const planes = new Uint8Array(buffer);
  const columns = {};
  let offset = 0;
  for (const [name, kind, length] of layout) {
    const width = TYPES[kind].BYTES_PER_ELEMENT;
    // Single bytes have one plane.
    const bytes = width === 1 ? planes.slice(offset, offset + length) : new Uint8Array(length * width);
    for (let plane = 0; width > 1 && plane < width; plane += 1) {
      const from = offset + plane * length;
      for (let index = 0, at = plane; index < length; index += 1, at += width) bytes[at] = planes[from + index];
    }
    offset += length * width;
    columns[name] = new TYPES[kind](bytes.buffer);
  }
  return columns;
}

/** Running sums of differences, as `Type`. */
export function summed(differences, Type) {
  const sums = new Type(differences.length);
  for (let index = 0, sum = 0; index < sums.length; index += 1) {
    sum += differences[index];
    sums[index] = sum;
  }
  return sums;
}

/** The first of ascending values that is at least `least`. */
export function firstAt(values, least) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
