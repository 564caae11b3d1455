// Uploads of any size: what of a file is in memory, and what becomes of one that changes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Uploads, partSize } from '../../../console/src/upload.js'

const MiB = 1024 * 1024

// Bytes that were given out and have not come back, at most.
class Memory {
  constructor() {
    Object.assign(this, { given: new Set(), now: 0, most: 0 })
  }
  take(buffer) {
    if (this.given.has(buffer)) return
    this.given.add(buffer)
    this.now += buffer.byteLength
    this.most = Math.max(this.most, this.now)
  }
}

// A file, as far as an upload looks at one. What is read of it is counted by the memory that it is read into.
class FakeFile {
  constructor(size, memory, content = () => 7) {
    Object.assign(this, { size, memory, content, type: '' })
  }
  slice(from, to) {
    return new FakePiece(this, from, to)
  }
}

class FakePiece {
  constructor(file, from, to) {
    Object.assign(this, { file, from, size: to - from })
  }
  stream() {
    let at = 0
    const { file, size } = this
    return {
      getReader: () => ({
        read: async (view) => {
          file.memory.take(view.buffer)
          const n = Math.min(view.byteLength, size - at, MiB)
          new Uint8Array(view.buffer, view.byteOffset, n).fill(file.content())
          at += n
          return { done: n === 0, value: new Uint8Array(view.buffer, view.byteOffset, n) }
        },
        cancel: async () => {}
      })
    }
  }
  async arrayBuffer() {
    const buffer = new ArrayBuffer(this.size)
    this.file.memory.take(buffer)
    return buffer
  }
}

const session = {
  signer: { headers: async ({ headers, hash }) => ({ ...headers, 'x-amz-content-sha256': hash }) },
  refused: (error) => error,
  object: async (method, bucket, key, { query }) => ({
    text: async () => (query[0][0] === 'uploads' ? '<R><UploadId>u</UploadId></R>' : '<R><ETag>e</ETag></R>')
  })
}

// Requests that are under way, answered a moment later by `answer`: a status, or 0 for a connection that breaks.
const answerMs = 500 // longer than it takes to hash a piece, so that requests meet

function serve(answer) {
  const seen = { requests: [], now: 0, most: 0 }
  globalThis.XMLHttpRequest = class {
    upload = {}
    headers = {}
    open(method, url) {
      this.url = url
    }
    setRequestHeader(name, value) {
      this.headers[name] = value
    }
    getResponseHeader() {
      return '"etag"'
    }
    abort() {}
    send(body) {
      seen.requests.push({ url: this.url, body, hash: this.headers['x-amz-content-sha256'] })
      seen.most = Math.max(seen.most, ++seen.now)
      this.responseText = ''
      setTimeout(() => {
        --seen.now
        this.status = answer(seen.requests.length)
        this.status === 0 ? this.onerror() : this.onload()
      }, answerMs)
    }
  }
  return seen
}

const uploaded = (uploads, file, key = 'k') => new Promise((done) => uploads.add('b', key, file, done))

test('of files of any size a piece is in memory, four pieces are under way, and none is sent from memory', async () => {
  const memory = new Memory()
  const seen = serve(() => 200)
  const uploads = new Uploads(session)
  const ends = await Promise.all([1, 2, 3].map((n) => uploaded(uploads, new FakeFile(100 * MiB, memory), `k${n}`)))
  assert.deepEqual(ends.map((one) => [one.state, one.error]), Array(3).fill(['done', '']))
  assert.equal(seen.requests.length, 3 * 7)
  assert.ok(seen.requests.every((one) => one.body instanceof FakePiece), 'a browser sends it from the file')
  assert.ok(seen.most <= 4, `${seen.most} requests at once`)
  assert.ok(memory.most <= 16 * MiB, `${memory.most / MiB} MiB of 300 were in memory`)
  assert.equal(uploads.hasher.memory, null, 'nothing is kept')
})

test('a file of any size has ten thousand parts at most', () => {
  assert.equal(partSize(0), 16 * MiB)
  const most = 5 * 1024 ** 4
  assert.ok(Math.ceil(most / partSize(most)) <= 10000)
})

test('a piece whose connection broke is sent again as it was', async () => {
  const seen = serve((request) => (request === 1 ? 0 : 200))
  const end = await uploaded(new Uploads(session), new FakeFile(MiB, new Memory()))
  assert.equal(end.state, 'done')
  assert.equal(seen.requests.length, 2)
  assert.equal(seen.requests[0].hash, seen.requests[1].hash)
})

test('a file that has changed meanwhile is not sent again', async () => {
  let content = 1
  const seen = serve(() => {
    content = 2
    return 0
  })
  const end = await uploaded(new Uploads(session), new FakeFile(MiB, new Memory(), () => content))
  assert.equal(end.state, 'failed')
  assert.match(end.error, /has changed/)
  assert.equal(seen.requests.length, 1)
})
