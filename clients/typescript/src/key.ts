/** The checksum of SOW keys: the XOR of their 8-byte BLAKE2b hashes. */

/** A hash of 64 bits, as its high and its low half. */
export type Digest = readonly [high: number, low: number];

const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a, 0xade682d1,
  0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);

const SIGMA = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));

const MIXED = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;

const BLOCK = 128;
const encoder = new TextEncoder();
// Words of 64 bits, each as its low and its high half.
const v = new Uint32Array(32);
const m = new Uint32Array(32);

/** v[a] += v[b] + m[word] */
function add(a: number, b: number, word: number): void {
  const low = v[2 * a]! + v[2 * b]! + m[2 * word]!;
  v[2 * a + 1]! += v[2 * b + 1]! + m[2 * word + 1]! + Math.floor(low / 0x100000000);
  v[2 * a] = low;
}

/** v[a] += v[b] */
function addWord(a: number, b: number): void {
  const low = v[2 * a]! + v[2 * b]!;
  v[2 * a + 1]! += v[2 * b + 1]! + (low > 0xffffffff ? 1 : 0);
  v[2 * a] = low;
}

/** v[a] = (v[a] ^ v[b]) rotated right by `bits` */
function turn(a: number, b: number, bits: number): void {
  let low = v[2 * a]! ^ v[2 * b]!;
  let high = v[2 * a + 1]! ^ v[2 * b + 1]!;
  if (bits >= 32) [low, high] = [high, low];
  const rest = bits % 32;
  v[2 * a] = rest === 0 ? low : (low >>> rest) | (high << (32 - rest));
  v[2 * a + 1] = rest === 0 ? high : (high >>> rest) | (low << (32 - rest));
}

function compress(h: Uint32Array, block: Uint8Array, length: number, isLast: boolean): void {
  v.set(h);
  v.set(IV, 16);
  v[24]! ^= length;
  if (isLast) {
    v[28]! ^= 0xffffffff;
    v[29]! ^= 0xffffffff;
  }
  const view = new DataView(block.buffer, block.byteOffset, BLOCK);
  for (let at = 0; at < 32; at++) m[at] = view.getUint32(4 * at, true);
  for (let round = 0; round < 12; round++) {
    const sigma = SIGMA[round % 10]!;
    for (let at = 0; at < 8; at++) {
      const [a, b, c, d] = MIXED[at]!;
      add(a, b, sigma[2 * at]!);
      turn(d, a, 32);
      addWord(c, d);
      turn(b, c, 24);
      add(a, b, sigma[2 * at + 1]!);
      turn(d, a, 16);
      addWord(c, d);
      turn(b, c, 63);
    }
  }
  for (let at = 0; at < 16; at++) h[at]! ^= v[at]! ^ v[at + 16]!;
}

/** Return the 8-byte BLAKE2b of a SOW key. */
export function digestOf(key: string): Digest {
  const bytes = encoder.encode(key);
  const h = IV.slice();
  h[0]! ^= 0x01010008; // a digest of 8 bytes, no key
  const padded = new Uint8Array(Math.max(1, Math.ceil(bytes.length / BLOCK)) * BLOCK);
  padded.set(bytes);
  for (let at = 0; at < padded.length; at += BLOCK) {
    const isLast = at + BLOCK >= padded.length;
    compress(h, padded.subarray(at, at + BLOCK), isLast ? bytes.length : at + BLOCK, isLast);
  }
  return [swapped(h[0]!), swapped(h[1]!)];
}

/** The digest's bytes count from its most significant one; a word's from its least significant one. */
const swapped = (word: number): number =>
  ((word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)) >>> 0;

/** Return the XOR of the digests of SOW keys, in hex, as the service sends it. */
export function hashOf(keys: Iterable<string>): string {
  let [high, low] = [0, 0];
  for (const key of keys) {
    const digest = digestOf(key);
    high ^= digest[0];
    low ^= digest[1];
  }
  return [high, low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}
