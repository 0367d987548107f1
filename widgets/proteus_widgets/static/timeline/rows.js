// Where each row stands: one group per device, its compute stream tall, its other streams slim.
// A device that stands for others unfolds into all of them: rows that show the same lanes again.
// One that was unfolded in an earlier result may stand for itself alone in this one.

const HEIGHT = { compute: 18, memory: 26 };
const SLIM = 9;
const GAP = 8;

export function layoutRows(lanes, memoryDevices, members = {}, unfolded = new Set()) {
  const rows = [];
  let y = 4;
  for (const group of groups(lanes)) {
    const { device, multiplicity } = group[0];
    const ranks = (unfolded.has(device) && members[device]) || [device];
    for (const rank of ranks) {
      if (rows.length) y += GAP;
      const common = { device, rank, copy: rank !== device, label: `GPU ${rank}`, multiplicity, unfolded: ranks.length > 1 };
      const put = (row, height) => {
        rows.push({ ...common, ...row, y, height });
        y += height + 2;
      };
      group.forEach(({ stream, index }, i) => put({ type: "lane", lane: index, stream, first: i === 0 }, HEIGHT[stream] ?? SLIM));
      if (memoryDevices.has(device)) put({ type: "memory", stream: "memory", first: false }, HEIGHT.memory);
    }
  }
  return { rows, height: y + 4 };
}

// Neighbouring lanes of one device.
function groups(lanes) {
  const found = [];
  lanes.forEach((lane, index) => {
    if (!index || lanes[index - 1].device !== lane.device) found.push([]);
    found.at(-1).push({ ...lane, index });
  });
  return found;
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
