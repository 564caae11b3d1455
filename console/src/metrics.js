// The server's metrics (Prometheus' text format), and rates between two readings of them.

const line = /^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)/
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

export function read(text) {
  const samples = []
  for (const one of text.split('\n')) {
    if (one === '' || one.startsWith('#')) continue
    const found = line.exec(one)
    if (!found) continue
    const labels = {}
    for (const [, name, value] of (found[2] || '').matchAll(label)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c))
    samples.push({ name: found[1], labels, value: Number(found[3]) })
  }
  return new Reading(samples)
}

export class Reading {
  constructor(samples) {
    this.at = performance.now()
    this.byName = new Map()
    for (const sample of samples) {
      if (!this.byName.has(sample.name)) this.byName.set(sample.name, [])
      this.byName.get(sample.name).push(sample)
    }
  }

  has(name) {
    return this.byName.has(name)
  }

  all(name, where = {}) {
    const fits = (sample) => Object.entries(where).every(([key, value]) => sample.labels[key] === value)
    return (this.byName.get(name) || []).filter(fits)
  }

  sum(name, where) {
    return this.all(name, where).reduce((sum, sample) => sum + sample.value, 0)
  }

  // By a label's value: [[value, sum], ...], largest first.
  by(name, key, where) {
    const sums = new Map()
    for (const sample of this.all(name, where)) sums.set(sample.labels[key], (sums.get(sample.labels[key]) || 0) + sample.value)
    return [...sums].sort((a, b) => b[1] - a[1])
  }

  // How many were counted up to each bound: [[bound, count], ...].
  bounds(name, where) {
    const sums = new Map()
    for (const sample of this.all(`${name}_bucket`, where)) {
      const bound = sample.labels.le === '+Inf' ? Infinity : Number(sample.labels.le)
      sums.set(bound, (sums.get(bound) || 0) + sample.value)
    }
    return [...sums].sort((a, b) => a[0] - b[0])
  }
}

// Rate per second between two readings. A counter that became smaller was restarted.
export function rate(before, now, name, where) {
  if (!before) return NaN
  const grown = now.sum(name, where) - before.sum(name, where)
  return Math.max(0, grown) / ((now.at - before.at) / 1000)
}

// A quantile of a histogram between two readings, or since the start if `before` is null; NaN: no values.
export function quantile(before, now, name, where, q) {
  const old = new Map(before ? before.bounds(name, where) : [])
  const grown = now.bounds(name, where).map(([bound, count]) => [bound, count - (old.get(bound) || 0)])
  const total = grown.at(-1)?.[1] || 0
  if (total <= 0) return NaN
  let low = 0
  let below = 0
  for (const [bound, count] of grown) {
    if (count >= q * total) return bound === Infinity ? low : low + ((bound - low) * (q * total - below)) / Math.max(1e-9, count - below)
    low = bound
    below = count
  }
  return low
}

// What carries the bytes of objects: only a device's transfers are RDMA.
export const transports = [['rdma', 'RDMA device'], ['shared_memory', 'shared memory'], ['tcp', 'TCP'], ['http', 'HTTP']]

// The share of objects' bytes that RDMA devices moved, in percent, and what carried the others.
export function carried(reading) {
  const all = transports.map(([transport, name]) => ({ transport, name, bytes: reading.sum('verbena_transport_bytes_total', { transport }) }))
  const sum = all.reduce((total, one) => total + one.bytes, 0)
  return { sum, share: sum ? (all[0].bytes / sum) * 100 : 0, ways: all.filter((one) => one.bytes > 0) }
}

// What GPUs of this host copied for the server (the way `direct`); null: there are none. `rates`, in bytes and copies per
// second since `before`, is null without that reading.
export function gpus(before, now) {
  const one = (name, where) => now.sum(`verbena_gpudirect_${name}`, where)
  if (one('devices') === 0 && one('copies_total') === 0) return null
  const perSecond = (name, where) => rate(before, now, `verbena_gpudirect_${name}`, where)
  return {
    devices: one('devices'), lost: one('lost_devices'), losses: one('losses_total'), mapped: one('mapped_bytes'), aside: one('set_aside_bytes'),
    toDevice: one('bytes_total', { direction: 'to_device' }), fromDevice: one('bytes_total', { direction: 'from_device' }),
    copies: one('copies_total'), failed: one('copies_failed_total'),
    rates: before && {
      toDevice: perSecond('bytes_total', { direction: 'to_device' }), fromDevice: perSecond('bytes_total', { direction: 'from_device' }),
      copies: perSecond('copies_total')
    }
  }
}
