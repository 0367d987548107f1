// Stands in for the widget model where there is no kernel: values, change events, and a place to send messages.

export class OfflineModel {
  constructor(state, receive) {
    this.state = state;
    this.receive = receive;
    this.handlers = {};
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    this.state[name] = value;
    for (const handler of this.handlers[`change:${name}`] ?? []) handler();
  }
  on(event, handler) { (this.handlers[event] ||= []).push(handler); }
  off(event, handler) { this.handlers[event] = (this.handlers[event] ?? []).filter((other) => other !== handler); }
  save_changes() {}
  send(message) { this.receive(message); }
}

// The state is JSON in which {"$": [offset, length]} stands for bytes of one packed blob.
export function restore(value, bytes) {
  if (Array.isArray(value)) return value.map((item) => restore(item, bytes));
  if (value === null || typeof value !== "object") return value;
  if (value.$) return new DataView(bytes.buffer, bytes.byteOffset + value.$[0], value.$[1]);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, restore(item, bytes)]));
}

export async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
