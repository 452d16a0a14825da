// What was seen while somebody looked: bounded series of numbers over time, in this tab only.

const POINTS_MAX = 720; // an hour, at a look every five seconds
const ALL_POINTS_MAX = 200_000;
const series = new Map(); // by name, that of the latest look last
let total = 0;

// Notes a number that was seen now. Unknown ones (null) leave a gap.
export function note(name, value, at = Date.now()) {
  const points = series.get(name) ?? [];
  series.delete(name);
  series.set(name, points);
  points.push({ at, value });
  total += 1;
  if (points.length > POINTS_MAX) {
    points.shift();
    total -= 1;
  }
  while (total > ALL_POINTS_MAX && series.size > 1) {
    const [oldest, { length }] = series.entries().next().value;
    series.delete(oldest);
    total -= length;
  }
}

// All points of a name, the oldest first.
export function noted(name) {
  return series.get(name) ?? [];
}

// Changes per second from one point to the next, for numbers that only grow.
export function rates(name) {
  const points = noted(name);
  return points.slice(1).map((point, index) => ({ at: point.at, value: rate(points[index], point) }));
}

// The change per second at the last look; null until there are two.
export function latestRate(name) {
  const [before, last] = noted(name).slice(-2);
  return last === undefined ? null : rate(before, last);
}

function rate(before, after) {
  if (before.value === null || after.value === null || after.at <= before.at) return null;
  return Math.max(after.value - before.value, 0) / ((after.at - before.at) / 1000);
}

// Forgets everything, as another user may log in.
export function forget() {
  series.clear();
  total = 0;
}
