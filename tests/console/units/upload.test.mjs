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
  refusals: [],
  signer: { headers: async ({ headers, hash }) => ({ ...headers, 'x-amz-content-sha256': hash }) },
  refused(error, date) {
    this.refusals.push([error.code, date])
    return error
  },
  object: async (method, bucket, key, { query }) => ({
    text: async () => (query[0][0] === 'uploads' ? '<R><UploadId>u</UploadId></R>' : '<R><ETag>e</ETag></R>')
  })
}

// Requests that are under way, answered a moment later by `answer`: a status, or 0 for a connection that breaks, or
// [status, code] of an error. It is asked with the number of the request, and with the request.
const answerMs = 500 // longer than it takes to hash a piece, so that requests meet

function serve(answer) {
  const seen = { requests: [], now: 0, most: 0, aborted: 0 }
  globalThis.XMLHttpRequest = class {
    upload = {}
    headers = {}
    open(method, url) {
      this.url = url
    }
    setRequestHeader(name, value) {
      this.headers[name] = value
    }
    getResponseHeader(name) {
      return { etag: '"etag"', date: 'Mon, 02 Jan 2006 15:04:05 GMT' }[name]
    }
    abort() {
      if (this.ended) return
      this.ended = true
      --seen.now
      ++seen.aborted
      this.onabort()
    }
    send(body) {
      const request = { url: this.url, body, hash: this.headers['x-amz-content-sha256'] }
      const number = seen.requests.push(request)
      seen.most = Math.max(seen.most, ++seen.now)
      this.responseText = ''
      setTimeout(() => {
        if (this.ended) return
        this.ended = true
        --seen.now
        const [status, code] = [answer(number, request)].flat()
        this.status = status
        if (code) this.responseText = `<Error><Code>${code}</Code><Message>no</Message></Error>`
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

test('the first part that cannot be sent ends the others, and the upload has failed and is not cancelled', async () => {
  const seen = serve((number, { url }) => (url.includes('partNumber=2&') ? [403, 'AccessDenied'] : 200))
  const asked = []
  const uploads = new Uploads({ ...session, object: (method, ...more) => {
    asked.push(method)
    return session.object(method, ...more)
  } })
  const end = await uploaded(uploads, new FakeFile(400 * MiB, new Memory()))
  assert.deepEqual([end.state, end.error], ['failed', 'no'])
  assert.ok(seen.requests.length <= 8, `${seen.requests.length} of 25 parts were sent`)
  assert.equal(seen.now, 0, 'nothing is under way')
  assert.deepEqual(asked, ['POST', 'DELETE'], 'its parts are given up')
  assert.equal(end.abort.signal.aborted, false)
})

test('who cancels an upload of many parts ends all of them', async () => {
  const seen = serve(() => 200)
  const uploads = new Uploads(session)
  const end = uploaded(uploads, new FakeFile(400 * MiB, new Memory()))
  while (seen.requests.length < 4) await new Promise((go) => setTimeout(go, 10))
  uploads.cancel(uploads.list[0])
  assert.deepEqual([(await end).state, (await end).error], ['cancelled', 'Cancelled'])
  assert.equal(seen.now, 0)
  assert.ok(seen.requests.length <= 8)
})

test('a connection that stalled is no lasting failure, nor is a clock that differs', async () => {
  for (const refusal of [[400, 'RequestTimeout'], [403, 'RequestTimeTooSkewed'], [429, ''], [503, 'SlowDown']]) {
    session.refusals = []
    const seen = serve((number) => (number === 1 ? refusal : 200))
    const end = await uploaded(new Uploads(session), new FakeFile(MiB, new Memory()))
    assert.deepEqual([end.state, seen.requests.length], ['done', 2], refusal[1])
    assert.deepEqual(session.refusals, [[refusal[1], 'Mon, 02 Jan 2006 15:04:05 GMT']], 'the session learns the time')
  }
  for (const refusal of [[400, 'BadDigest'], [403, 'AccessDenied'], [404, 'NoSuchBucket']]) {
    const seen = serve(() => refusal)
    const end = await uploaded(new Uploads(session), new FakeFile(MiB, new Memory()))
    assert.deepEqual([end.state, seen.requests.length], ['failed', 1], refusal[1])
  }
})

test('the work for a file does not grow with the number of files', async () => {
  let reads = 0
  const counted = (list) => new Proxy(list, {
    get(target, name) {
      if (typeof name === 'string' && /^\d+$/.test(name)) ++reads
      return Reflect.get(target, name)
    }
  })
  const watch = (of, name) => {
    let value = counted(of[name])
    Object.defineProperty(of, name, { get: () => value, set: (next) => void (value = counted(next)) })
  }
  const uploads = new Uploads(session)
  watch(uploads, 'list')
  watch(uploads.files, 'waiting')
  const files = 1000
  const ends = await Promise.all(Array.from({ length: files }, () => uploaded(uploads, new FakeFile(1, new Memory()), '../no-such-name')))
  assert.equal(ends.filter((one) => one.state === 'failed').length, files)
  assert.deepEqual([uploads.running, uploads.counts.failed], [0, files])
  assert.ok(reads <= 10 * files, `${reads} entries were read for ${files} files`)
  assert.deepEqual(uploads.newest(2).map((one) => one.id), [files, files - 1])
  uploads.clear()
  assert.deepEqual([uploads.list.length, uploads.running, uploads.counts.failed], [0, 0, 0])
})
