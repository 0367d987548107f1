/** @import { Column, Message, Model } from "../types" */

/**
 * Stands in for the widget model where there is no kernel: values, change events, and a place to send messages.
 * @template {object} Traits
 * @implements {Model<Traits>}
 */
export class OfflineModel {
  /**
   * @param {Traits} state
   * @param {(message: Message) => void} receive
   */
  constructor(state, receive) {
    this.state = state;
    this.receive = receive;
    /** @type {Map<string, (() => void)[]>} */
    this.handlers = new Map();
  }
  /**
   * @template {keyof Traits} Name
   * @param {Name} name
   */
  get(name) { return this.state[name]; }

  /**
   * @template {keyof Traits} Name
   * @param {Name} name
   * @param {Traits[Name]} value
   */
  set(name, value) {
    this.state[name] = value;
    for (const handler of this.handlers.get(`change:${String(name)}`) ?? []) handler();
  }

  /**
   * @param {string} event
   * @param {() => void} handler
   */
  on(event, handler) { this.handlers.set(event, [...(this.handlers.get(event) ?? []), handler]); }

  /**
   * @param {string} event
   * @param {() => void} handler
   */
  off(event, handler) { this.handlers.set(event, (this.handlers.get(event) ?? []).filter((other) => other !== handler)); }

  save_changes() {}

  /** @param {Message} message */
  send(message) { this.receive(message); }
}

/** @typedef {null | boolean | number | string | Packed[] | { [name: string]: Packed }} Packed */

/**
 * @param {object} value
 * @returns {value is { $: [offset: number, length: number] }}
 */
const isColumn = (value) => "$" in value;

/**
 * The state is JSON in which {"$": [offset, length]} stands for bytes of one packed blob.
 * @param {Packed} value
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {unknown}
 */
export function restore(value, bytes) {
  if (Array.isArray(value)) return value.map((item) => restore(item, bytes));
  if (value === null || typeof value !== "object") return value;
  if (isColumn(value)) return new DataView(bytes.buffer, bytes.byteOffset + value.$[0], value.$[1]);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, restore(item, bytes)]));
}

/** @param {string} text */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
