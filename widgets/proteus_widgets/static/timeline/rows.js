// Where each row stands: one group per device, its compute stream tall, its other streams slim.

const HEIGHT = { compute: 18, memory: 26 };
const SLIM = 9;
const GAP = 8;

export function layoutRows(lanes, memoryDevices) {
  const rows = [];
  let y = 4;
  lanes.forEach((lane, index) => {
    const first = index === 0 || lanes[index - 1].device !== lane.device;
    if (first && index) y += GAP;
    const height = HEIGHT[lane.stream] ?? SLIM;
    rows.push({ type: "lane", lane: index, device: lane.device, first, y, height, stream: lane.stream, label: lane.label, multiplicity: lane.multiplicity });
    y += height + 2;
    const last = index === lanes.length - 1 || lanes[index + 1].device !== lane.device;
    if (last && memoryDevices.has(lane.device)) {
      rows.push({ type: "memory", device: lane.device, first: false, y, height: HEIGHT.memory, stream: "memory", label: "", multiplicity: lane.multiplicity });
      y += HEIGHT.memory + 2;
    }
  });
  return { rows, height: y + 4 };
}

export function visibleRows(rows, top, bottom) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height < top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < rows.length && rows[end].y <= bottom) end++;
  return rows.slice(low, end);
}

export function rowAt(rows, y) {
  return visibleRows(rows, y, y).find((row) => y >= row.y - 1 && y <= row.y + row.height + 1) ?? null;
}
