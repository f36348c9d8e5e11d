// Compares two texts line by line.

// Pairs of lines that are compared at most. Larger differences are shown as all the old and all the new lines.
const PAIRS_MAX = 4_000_000;

// Lines with their marks: a space for those that both texts have, - and + for those of the older or the newer only.
export function lineChanges(before, after) {
  const least = Math.min(before.length, after.length);
  let start = 0;
  while (start < least && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < least - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const marked = (mark, lines) => lines.map((line) => [mark, line]);
  return [
    ...marked(" ", before.slice(0, start)),
    ...between(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...marked(" ", before.slice(before.length - end)),
  ];
}

// The same between the first and the last difference, by a longest common subsequence.
function between(before, after) {
  const found = [];
  const [rows, columns] = before.length * after.length > PAIRS_MAX ? [0, 0] : [before.length, after.length];
  const common = Array.from({ length: rows + 1 }, () => new Uint32Array(columns + 1));
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      common[i][j] = before[i] === after[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < rows && j < columns) {
    if (before[i] === after[j]) {
      found.push([" ", before[i]]);
      i += 1;
      j += 1;
    } else if (common[i + 1][j] >= common[i][j + 1]) {
      found.push(["-", before[i]]);
      i += 1;
    } else {
      found.push(["+", after[j]]);
      j += 1;
    }
  }
  return [...found, ...before.slice(i).map((line) => ["-", line]), ...after.slice(j).map((line) => ["+", line])];
}

// The marked lines with changes and a few around each; a line with the mark … stands for the others.
export function nearChanges(lines, around = 3) {
  const near = new Set(lines.flatMap(([mark], at) => (mark === " " ? [] : Array.from({ length: 2 * around + 1 }, (_, step) => at - around + step))));
  const shown = [];
  lines.forEach((line, at) => {
    if (near.has(at)) shown.push(line);
    else if (shown.at(-1)?.[0] !== "…") shown.push(["…", ""]);
  });
  return shown;
}
