/** Values of JSON. They are never changed: the parts that stay equal are shared between versions of a record. */

export type Json = null | boolean | number | bigint | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [name: string]: Json;
}

export type MutableObject = { [name: string]: Json };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Return a field of an object; undefined if the object has none of this name. */
export function own(object: JsonObject, name: string): Json | undefined {
  // Faster than `Object.hasOwn`: what objects inherit are functions and `__proto__`.
  const value: unknown = object[name];
  return typeof value === "function" || value === Object.prototype ? undefined : (value as Json);
}

/** Set a field. An assignment to `__proto__` would change the prototype and set no field. */
export function put(object: MutableObject, name: string, value: Json): void {
  if (name === "__proto__") {
    Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true });
  } else {
    object[name] = value;
  }
}

/** Whether two values are the same; the order of fields makes no difference. */
export function same(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, at) => same(value, other[at]));
  }
  if (Array.isArray(other)) return false;
  const [left, right] = [one as JsonObject, other as JsonObject];
  const names = Object.keys(left);
  if (names.length !== Object.keys(right).length) return false;
  for (const name of names) if (!same(left[name], own(right, name))) return false;
  return true;
}
