// Lossless JSON: what a program's values become on their way to the host.
//
// Records whose members are all there from the start need no prototype of null: no other is ever asked for.

import {
  abs, ArrayPrototype, bigIntText, getOwnPropertyDescriptor, getPrototypeOf, is, isArray, isInteger,
  ObjectPrototype, ownKeys, quote, SetClass, setAdd, setDelete, setHas, toBigInt,
} from "./captured.ts";

/** Open a container for reading; null when it is not a plain one. May throw: proxies run code. */
function openContainer(node: any, parent: any): any {
  const prototype = getPrototypeOf(node), list = isArray(node), keys: any = ownKeys(node);
  const length = list ? node.length : keys.length;
  // The keys of a dense array without extras are its indices and then, last, its length.
  if (list && (prototype !== ArrayPrototype || keys.length !== length + 1 || keys[length] !== "length")) return null;
  if (!list && prototype !== ObjectPrototype && prototype !== null) return null;
  for (let i = 0; !list && i < length; i++)
    if (typeof keys[i] !== "string" || !getOwnPropertyDescriptor(node, keys[i])!.enumerable) return null;
  return { node, list, keys, length, index: 0, parent };
}

function scalarText(value: any, limit: number): string | null {
  const kind = typeof value;
  if (value === null || kind === "boolean") return "" + value;
  if (kind === "string") return value.length > limit ? value : quote(value);
  if (kind !== "number" || value - value !== 0 || is(value, -0)) return null;
  // Integers whose print form JavaScript would round are written exactly.
  return isInteger(value) && abs(value) > 2 ** 53 && abs(value) < 1e21 ? bigIntText(toBigInt(value)) : "" + value;
}

/** Write a value as JSON text, reading each slot once, with no recursion. A lossy one is read on for its size. */
export function encode(root: unknown, limit: number) {
  const result = { text: "", depth: 0, lossy: false, over: false };
  const ancestors = new SetClass();
  let open: any = null, depth = 0;
  for (let value: any = root;;) {
    const text = scalarText(value, limit);
    let inner = null;
    try {
      if (text === null && typeof value === "object" && !setHas(ancestors, value)) inner = openContainer(value, open);
    } catch { /* a proxy that throws is no plain container */ }
    if (inner !== null) {
      open = inner;
      setAdd(ancestors, value);
      result.text += open.list ? "[" : "{";
      if (++depth > result.depth) result.depth = depth;
    } else if (text === null) result.lossy = true;
    else result.text += text;
    result.over = result.text.length > limit;
    while (open !== null && open.index === open.length) {
      result.text += open.list ? "]" : "}";
      setDelete(ancestors, open.node);
      open = open.parent;
      depth--;
    }
    if (open === null || result.over) return result;
    const key = open.keys[open.index];
    result.text += (open.index++ > 0 ? "," : "") + (open.list ? "" : quote(key) + ":");
    try {
      value = open.node[key];
    } catch {
      value = undefined; // which is lossy
    }
  }
}

/** The member of a frame that carries a value; deep ones travel as text, which needs no deep parser. */
export const member = (name: string, encoded: any): string =>
  encoded.depth > 100 ? ',"deep":' + quote(encoded.text) : ',"' + name + '":' + encoded.text;
