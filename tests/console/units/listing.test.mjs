// A listing of any length: what of it is in memory, and what becomes of rows that do not come.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Listing } from '../../../console/src/listing.js'

const pageRows = 1000
const keyOf = (n) => `key-${String(n).padStart(7, '0')}`

// A bucket of so many pages, as Session.list() tells it.
class Bucket {
  constructor(pages) {
    Object.assign(this, { pages, asked: 0, broken: null, gone: 0 })
  }
  async list(bucket, { after }) {
    ++this.asked
    const page = after === undefined ? 0 : Number(after)
    if (this.broken?.(page)) throw new Error(`page ${page} does not come`)
    const keys = Array.from({ length: pageRows }, (_, i) => ({ key: keyOf(page * pageRows + i), size: 1, modified: '' }))
    return { keys: keys.slice(0, pageRows - this.gone), folders: [], next: page + 1 < this.pages ? String(page + 1) : null }
  }
}

// Until nothing is being asked for any more.
async function settle(listing) {
  while (listing.asking || listing.busy) await new Promise((go) => setImmediate(go))
}

const inMemory = (listing) => listing.pages.filter((page) => page.rows).length

test('of two hundred pages 64 are in memory, and those that were let go come again', async () => {
  const listing = new Listing(new Bucket(200), 'b', '', () => {})
  for (let n = 0; n < 200; ++n) {
    await listing.more()
    assert.ok(inMemory(listing) <= 64, `${inMemory(listing)} pages after ${n + 1}`)
  }
  assert.equal(listing.length, 200 * pageRows)
  assert.ok(listing.whole)
  assert.equal(inMemory(listing), 64)
  for (const at of [0, 77_500, 199_990, 3]) {
    let rows = listing.slice(at, at + 5)
    if (at !== 199_990) assert.deepEqual(rows.map((row) => row.state), Array(5).fill('coming'))
    await settle(listing)
    rows = listing.slice(at, at + 5)
    if (at !== 3) assert.deepEqual(rows.map((row) => row.key), [0, 1, 2, 3, 4].map((i) => keyOf(at + i)))
    assert.ok(inMemory(listing) <= 64)
    if (at === 77_500) listing.pages[0].rows = null // for the last turn
  }
})

test('a page that does not come is asked for again where somebody says so, and by itself', async () => {
  const bucket = new Bucket(70)
  const listing = new Listing(bucket, 'b', '', () => {})
  for (let n = 0; n < 70; ++n) await listing.more()
  bucket.broken = (page) => page === 0
  listing.slice(0, 3)
  await settle(listing)
  const asked = bucket.asked
  const failed = listing.slice(0, 3)
  assert.deepEqual(failed.map((row) => row.state), ['failed', 'failed', 'failed'])
  await settle(listing)
  assert.equal(bucket.asked, asked, 'it is not asked for without end')
  // Others come.
  listing.slice(1000, 1003)
  await settle(listing)
  assert.equal(listing.slice(1000, 1001)[0].key, keyOf(1000))
  bucket.broken = null
  listing.again(failed[0].page)
  assert.equal(listing.slice(0, 1)[0].state, 'coming')
  await settle(listing)
  assert.equal(listing.slice(0, 1)[0].key, keyOf(0))
})

test('a next page that does not come is asked for again', async () => {
  const bucket = new Bucket(3)
  const listing = new Listing(bucket, 'b', '', () => {})
  await listing.more()
  bucket.broken = () => true
  await listing.more()
  assert.match(listing.error.message, /page 1 does not come/)
  await listing.more()
  assert.equal(bucket.asked, 2, 'not by itself')
  bucket.broken = null
  await listing.moreAgain()
  assert.equal(listing.error, null)
  assert.equal(listing.length, 2 * pageRows)
})

test('rows that were deleted meanwhile are told as gone', async () => {
  const bucket = new Bucket(70)
  const listing = new Listing(bucket, 'b', '', () => {})
  for (let n = 0; n < 70; ++n) await listing.more()
  bucket.gone = 2
  listing.slice(0, 1)
  await settle(listing)
  assert.deepEqual(listing.slice(996, 1000).map((row) => row.state || row.key), [keyOf(996), keyOf(997), 'gone', 'gone'])
})
