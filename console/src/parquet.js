// The schema in a Parquet file's footer, which is Thrift's compact protocol. Every length is checked against what is there.

const footerMax = 4 * 1024 * 1024
const depthMax = 32
const itemsMax = 20000

class Reader {
  constructor(buffer) {
    this.bytes = new Uint8Array(buffer)
    this.at = 0
  }
  byte() {
    if (this.at >= this.bytes.length) throw new Error('The Parquet footer ends too early.')
    return this.bytes[this.at++]
  }
  varint() {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new Error('A number in the Parquet footer is too long.')
  }
  number() {
    const value = this.varint()
    return Number((value >> 1n) ^ -(value & 1n))
  }
  binary() {
    const size = Number(this.varint())
    if (size > this.bytes.length - this.at) throw new Error('A text in the Parquet footer is longer than the footer.')
    this.at += size
    return this.bytes.subarray(this.at - size, this.at)
  }
  value(type, depth) {
    if (depth > depthMax) throw new Error('The Parquet footer is too deep.')
    if (type === 1 || type === 2) return type === 1
    if (type === 3) return this.byte()
    if (type <= 6) return this.number()
    if (type === 7) return void (this.at += 8)
    if (type === 8) return this.binary()
    if (type === 9 || type === 10) return this.list(depth)
    if (type === 12) return this.struct(depth)
    throw new Error('The Parquet footer has an unknown type.')
  }
  list(depth) {
    const head = this.byte()
    const size = head >> 4 === 15 ? Number(this.varint()) : head >> 4
    if (size > itemsMax) throw new Error('A list in the Parquet footer is too long.')
    const type = head & 15
    return Array.from({ length: size }, () => (type <= 2 ? this.byte() === 1 : this.value(type, depth + 1)))
  }
  struct(depth) {
    const fields = {}
    for (let id = 0; ;) {
      const head = this.byte()
      if (head === 0) return fields
      id = head >> 4 ? id + (head >> 4) : this.number()
      fields[id] = this.value(head & 15, depth + 1)
    }
  }
}

const types = ['boolean', 'int32', 'int64', 'int96', 'float', 'double', 'bytes', 'fixed bytes']
const converted = ['string', 'map', 'map entry', 'list', 'enum', 'decimal', 'date', 'time (ms)', 'time (µs)', 'timestamp (ms)', 'timestamp (µs)',
  'uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32', 'int64', 'json', 'bson', 'interval']
const text = (bytes) => new TextDecoder().decode(bytes || new Uint8Array())

// Reads with `range(from, to)`: {rows, writer, columns: [{name, depth, type, repeated}]}.
export async function parquet(bytes, range) {
  if (bytes < 12) throw new Error('This is not a Parquet file: it is too short.')
  const end = new DataView(await range(bytes - 8, bytes))
  if (text(new Uint8Array(end.buffer, 4)) !== 'PAR1') throw new Error('This is not a Parquet file, or its footer is encrypted.')
  const size = end.getUint32(0, true)
  if (size > footerMax || size > bytes - 12) throw new Error('The Parquet footer is too large.')
  const meta = new Reader(await range(bytes - 8 - size, bytes - 8)).struct(0)
  const open = []
  const columns = []
  for (const element of (Array.isArray(meta[2]) ? meta[2] : []).slice(1)) {
    while (open.length > 0 && open.at(-1) === 0) open.pop()
    if (open.length > 0) --open[open.length - 1]
    columns.push({
      name: text(element[4]),
      depth: Math.min(open.length, depthMax),
      type: converted[element[6]] || (element[5] ? 'group' : types[element[1]]) || 'unknown',
      repeated: ['no', 'yes', 'repeated'][element[3]] || ''
    })
    if (element[5]) open.push(element[5])
  }
  return { rows: meta[3] || 0, writer: text(meta[6]), columns }
}
