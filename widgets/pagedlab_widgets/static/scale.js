// From numbers to places on an axis, and back to numbers that a person reads.

/** @param {number} value  thousands apart, three digits otherwise */
export const format = (value) =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 });

/**
 * An axis for these values, in powers or evenly from 0: the `share` of it where a value lies, and where it has marks.
 * @param {number[]} values
 * @param {{log: boolean, ticks: number[]}} axis  `ticks`: where the marks go, if somebody knows better
 */
export function scaleOf(values, { log, ticks }) {
  const all = [...values, ...ticks].filter((value) => !log || value > 0);
  let low = all.length ? Math.min(...all) : log ? 1 : 0, high = all.length ? Math.max(...all) : 1;
  if (!log) low = Math.min(0, low);
  if (low === high) high = log ? 2 * low : low + 1;
  const marks = ticks.length ? ticks : log ? powers(low, high) : even(low, high);
  if (!log && !ticks.length) high = Math.max(high, marks[marks.length - 1]);
  /** @param {number} value */
  const share = (value) => log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  return { share, ticks: marks };
}

/** @param {number} low @param {number} high */
function even(low, high) {
  const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((times) => times * unit >= rough) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step); (i - 1) * step < high * (1 - 1e-9); i++) ticks.push(i * step);
  return ticks;
}

/** Powers of ten; of two where there are too few. @param {number} low @param {number} high */
function powers(low, high) {
  const base = high / low >= 100 ? 10 : 2, ticks = [];
  for (let power = Math.ceil(Math.log(low) / Math.log(base) - 1e-9); base ** power <= high * (1 + 1e-9); power++) ticks.push(base ** power);
  return ticks.length ? ticks : [low, high];
}

/** The place among ascending `places` that is nearest to `value`. @param {number[]} places @param {number} value */
export function nearest(places, value) {
  let best = 0;
  places.forEach((place, i) => { if (Math.abs(place - value) < Math.abs(places[best] - value)) best = i; });
  return best;
}
