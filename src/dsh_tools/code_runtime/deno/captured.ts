// What the worker uses after its start, captured before any program runs.
//
// A program shares this realm and may break every global and prototype in it. So nothing here is looked up again
// later, and nothing that is made of it relies on a property that a prototype could supply.

export const { apply, construct, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
export const { create, freeze, is, prototype: ObjectPrototype, setPrototypeOf } = Object;
export const { isArray, prototype: ArrayPrototype } = Array;
export const { bind, call } = Function.prototype;
export const { parse, stringify: quote }: { parse: any; stringify: (text: string) => string } = JSON;
export const [{ wait }, { exit }] = [Atomics, Deno];
export const [PromiseClass, ErrorClass, SetClass, BytesClass] = [Promise, Error, Set, Uint8Array];
export const [toText, toBigInt, toNumber] = [String, BigInt, Number];
export const [isInteger, { abs, floor }] = [Number.isInteger, Math];
export const AsyncFunction: any = getPrototypeOf(async function () {})!.constructor;

/** Turn methods into functions of their receiver, which no later change to a prototype can redirect. */
export const uncurry = (method: any): any => apply(bind, call, [method]);
export const methods = (prototype: any, ...names: string[]): any[] => names.map((name) => uncurry(prototype[name]));
export const bound = (owner: any, name: string): any => apply(bind, owner[name], [owner]);

export const [endsWith, indexOf, replace] = methods(String.prototype, "endsWith", "indexOf", "replace");
export const [slice, split, startsWith] = methods(String.prototype, "slice", "split", "startsWith");
export const [mapDelete, mapGet, mapSet] = methods(Map.prototype, "delete", "get", "set");
export const [setAdd, setDelete, setHas] = methods(Set.prototype, "add", "delete", "has");
export const [promiseThen, bigIntText] = [uncurry(Promise.prototype.then), uncurry(BigInt.prototype.toString)];
export const preventDefault = uncurry(Event.prototype.preventDefault);
export const [bytesBuffer, bytesLength, bytesOffset] = ["buffer", "byteLength", "byteOffset"].map((name) =>
  uncurry(getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype)!, name)!.get)
);
export const encodeText: (text: string) => Uint8Array<ArrayBuffer> = bound(new TextEncoder(), "encode");
export const decodeBytes: (bytes: Uint8Array, options: { stream: boolean }) => string = bound(new TextDecoder(), "decode");
export const readInput: (into: Uint8Array) => Promise<number | null> = bound(Deno.stdin, "read");
export const readNow: (into: Uint8Array) => number | null = bound(Deno.stdin, "readSync");
export const writeOutput: (bytes: Uint8Array) => number = bound(Deno.stdout, "writeSync");

// With these fixed, awaiting a native promise runs no code of the program's, and Deno's event loop goes on.
defineProperty(Function.prototype, "call", { writable: false, configurable: false });
defineProperty(Promise.prototype, "constructor", { value: Promise, writable: false, configurable: false });
defineProperty(Promise, Symbol.species, { configurable: false });
// Deno's own immediates copy and spread arrays.
defineProperty(Array.prototype, "constructor", { writable: false, configurable: false });
defineProperty(Array.prototype, Symbol.iterator, { writable: false, configurable: false });
defineProperty(Array, Symbol.species, { configurable: false });
defineProperty(getPrototypeOf([][Symbol.iterator]())!, "next", { writable: false, configurable: false });

/** A record without a prototype: reading or writing it never reaches a tampered one. */
export const bare = <T extends object>(value: T): T => setPrototypeOf(value, null);
export const define = (target: object, key: string, value: unknown, enumerable: boolean) =>
  defineProperty(target, key, bare({ value, enumerable, writable: true, configurable: true }));
