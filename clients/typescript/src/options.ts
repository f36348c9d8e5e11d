/** The `options` of a command: words and `name=value` pairs, separated by commas. The service checks them. */

const PLAIN = /[^,[]*/y;
// One piece inside an option's brackets. Strings and inner brackets hide closing brackets.
const RAW = String.raw`(?<![\p{L}\p{N}_])[rR](?:'[^']*'|"[^"]*")`;
const STRING = String.raw`'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"`;
const INSIDE = new RegExp(String.raw`${RAW}|${STRING}|\[[^\]]*\]|[^[\]'"rR]+|[rR]`, "suy");

/** Return the options in a text, split at the commas outside of brackets. */
export function splitOptions(text: string): string[] {
  const options: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length;) {
    at = after(PLAIN, text, at);
    if (text[at] === "[") {
      at = afterBracket(text, at);
    } else {
      options.push(text.slice(start, at));
      start = at += 1;
    }
  }
  options.push(text.slice(start));
  return options.map((option) => option.trim()).filter((option) => option !== "");
}

function afterBracket(text: string, opening: number): number {
  let at = opening + 1;
  for (let end = after(INSIDE, text, at); end > at; end = after(INSIDE, text, at)) at = end;
  return at + 1;
}

function after(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** Whether an option that is a word is among the options. */
export const hasOption = (text: string, word: string): boolean => splitOptions(text).includes(word);

/** Return the value of an option `name=value`; undefined if it is not among the options. */
export const optionValue = (text: string, name: string): string | undefined =>
  splitOptions(text)
    .find((option) => option.startsWith(`${name}=`))
    ?.slice(name.length + 1);

/** Return the options with `pause` added or removed. */
export function withPause(text: string, isPaused: boolean): string {
  const others = splitOptions(text).filter((option) => option !== "pause");
  return [...others, ...(isPaused ? ["pause"] : [])].join(",");
}
