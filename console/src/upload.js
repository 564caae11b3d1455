// Uploads, of any size in bounded memory: a file is read piece by piece, and each piece is signed with its SHA-256, so the
// server stores what this machine has read. A piece is in memory while it is hashed; the browser then sends it from the
// file, and the server refuses it if the file has changed in between. Before it is sent again it is hashed again.
import { ApiError, pathOf, reachable, skewed } from './api.js'
import { escape, parse } from './xml.js'
import { hex, queryText, sha256 } from './sign.js'

const MiB = 1024 * 1024
const partsAtOnce = 4 // of all uploads together
const filesAtOnce = 3
const tries = 4
const retryMs = 500
const partsMax = 10000

// Pieces of 16 MiB, or larger ones for files that would need too many.
export const partSize = (bytes) => Math.max(16 * MiB, Math.ceil(bytes / partsMax / MiB) * MiB)

// Who waits is served in order. The array is cut now and then, and not for each: a hundred thousand files may wait.
class Slots {
  constructor(free) {
    this.free = free
    this.waiting = []
    this.served = 0 // of those
  }
  async take() {
    if (this.free > 0) --this.free
    else await new Promise((go) => this.waiting.push(go))
  }
  give() {
    if (this.served === this.waiting.length) return void ++this.free
    const next = this.waiting[this.served]
    this.waiting[this.served++] = null
    if (this.served * 2 >= this.waiting.length) {
      this.waiting = this.waiting.slice(this.served)
      this.served = 0
    }
    next()
  }
}

const cancelled = () => new ApiError(0, '', 'Cancelled')

// Whether sending again would fail in the same way. A connection that stalls ends with RequestTimeout; a request that is
// signed again has the server's time (Session.refused).
const lasting = ({ status, code }) => status >= 400 && status < 500 && status !== 408 && status !== 429 && code !== 'RequestTimeout' && code !== skewed

// Ends at once when `signal` is aborted.
const pause = (ms, signal) => new Promise((go) => {
  const end = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    go()
  }
  const timer = setTimeout(end, ms)
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
})

// Hashes pieces of files one after the other, in the same memory: browsers are slow to free what was dropped.
class Hasher {
  constructor() {
    this.turn = new Slots(1)
    this.memory = null
  }

  async hash(piece) {
    await this.turn.take()
    try {
      const bytes = await this.read(piece).catch(() => piece.arrayBuffer()) // not every browser reads into given memory
      return hex(await sha256(bytes))
    } finally {
      this.turn.give()
    }
  }

  async read(piece) {
    const reader = piece.stream().getReader({ mode: 'byob' })
    let memory = this.memory?.byteLength >= piece.size ? this.memory : new ArrayBuffer(Math.max(piece.size, 16 * MiB))
    this.memory = null // the stream has it
    let at = 0
    while (at < piece.size) {
      const { done, value } = await reader.read(new Uint8Array(memory, at, piece.size - at))
      if (done) throw new Error('The file has become shorter')
      memory = value.buffer
      at += value.byteLength
    }
    reader.cancel().catch(() => {})
    this.memory = memory
    return new Uint8Array(memory, 0, at)
  }
}

// XMLHttpRequest, because fetch() reports no progress of uploads.
function put(session, url, path, query, piece, hash, headers, signal, onBytes) {
  return new Promise((done, failed) => {
    session.signer.headers({ method: 'PUT', path, query, headers, hash }).then((signed) => {
      if (signal.aborted) return failed(cancelled())
      const request = new XMLHttpRequest()
      const abort = () => request.abort()
      const end = (error, value) => {
        signal.removeEventListener('abort', abort)
        error ? failed(error) : done(value)
      }
      request.open('PUT', url)
      for (const [name, value] of Object.entries(signed)) request.setRequestHeader(name, value)
      request.upload.onprogress = (event) => onBytes(event.loaded)
      request.onload = () => {
        if (request.status === 200) return end(null, request.getResponseHeader('etag'))
        let code = ''
        let message = ''
        try {
          const top = parse(request.responseText)
          code = top.get('Code')
          message = top.get('Message')
        } catch { /* no answer of the server's */ }
        end(session.refused(new ApiError(request.status, code, message), request.getResponseHeader('date')))
      }
      request.onerror = () => end(new ApiError(0, '', 'The connection broke'))
      request.onabort = () => end(cancelled())
      signal.addEventListener('abort', abort)
      request.send(piece)
    }, failed)
  })
}

export class Uploads {
  constructor(session) {
    this.session = session
    this.list = [] // oldest first
    this.counts = { waiting: 0, running: 0, done: 0, cancelled: 0, failed: 0 } // of the list, by state
    this.listeners = new Set()
    this.parts = new Slots(partsAtOnce)
    this.files = new Slots(filesAtOnce)
    this.hasher = new Hasher()
    this.ids = 0
  }

  subscribe(listener) {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  changed() {
    this.told ||= setTimeout(() => {
      this.told = null
      this.listeners.forEach((listener) => listener())
    }, 100)
  }

  get running() {
    return this.counts.waiting + this.counts.running
  }

  newest(most) {
    return this.list.slice(-most).reverse()
  }

  becomes(upload, state) {
    --this.counts[upload.state]
    ++this.counts[state]
    upload.state = state
  }

  // The work for each file is the same, however many there are.
  add(bucket, key, file, onDone) {
    const upload = { id: ++this.ids, bucket, key, file, size: file.size, sent: 0, state: 'waiting', error: '', abort: new AbortController() }
    this.list.push(upload)
    ++this.counts.waiting
    this.changed()
    this.run(upload).then(onDone)
  }

  cancel(upload) {
    upload.abort.abort()
  }

  clear() {
    this.list = this.list.filter((one) => one.state === 'waiting' || one.state === 'running')
    Object.assign(this.counts, { done: 0, cancelled: 0, failed: 0 })
    this.changed()
  }

  async run(upload) {
    await this.files.take()
    this.becomes(upload, 'running')
    upload.began = performance.now()
    try {
      if (upload.abort.signal.aborted) throw cancelled()
      if (!reachable(upload.key)) throw new ApiError(0, '', 'A browser cannot send a name with “.” or “..” between slashes')
      if (upload.size <= partSize(0)) await this.whole(upload)
      else await this.inParts(upload)
      this.becomes(upload, 'done')
      upload.sent = upload.size
    } catch (error) {
      this.becomes(upload, upload.abort.signal.aborted ? 'cancelled' : 'failed')
      upload.error = error.message
    } finally {
      upload.ended = performance.now()
      upload.file = null
      this.files.give()
      if (this.running === 0) this.hasher.memory = null
      this.changed()
    }
    return upload
  }

  // One piece; failures that may pass are retried, until `signal` is aborted.
  async piece(upload, query, from, to, headers, signal, sent) {
    const path = pathOf(upload.bucket, upload.key)
    const text = queryText(query)
    await this.parts.take()
    try {
      if (signal.aborted) throw cancelled()
      const piece = upload.file.slice(from, to)
      const hash = await this.hasher.hash(piece)
      for (let turn = 1; ; ++turn) {
        try {
          return await put(this.session, path + (text && `?${text}`), path, text, piece, hash, headers, signal, sent)
        } catch (error) {
          sent(0)
          if (signal.aborted || lasting(error) || turn === tries) throw error
          await pause(retryMs * 2 ** turn, signal)
          if (signal.aborted) throw cancelled()
          // A browser reports a file that has changed only as a failure to send.
          const now = await this.hasher.hash(piece).catch(() => '')
          if (now !== hash) throw new ApiError(0, '', 'The file has changed since its upload began, or cannot be read any more')
        }
      }
    } finally {
      this.parts.give()
    }
  }

  whole(upload) {
    return this.piece(upload, [], 0, upload.size, typed(upload), upload.abort.signal, (bytes) => {
      upload.sent = bytes
      this.changed()
    })
  }

  async inParts(upload) {
    const { session, bucket, key } = { session: this.session, ...upload }
    const answer = await session.object('POST', bucket, key, { query: [['uploads', '']], headers: typed(upload) })
    const id = parse(await answer.text()).get('UploadId')
    const step = partSize(upload.size)
    const parts = Array.from({ length: Math.ceil(upload.size / step) }, (_, i) => ({ number: i + 1, from: i * step, sent: 0, etag: '' }))
    // Ends what is under way: the user's cancellation, or the first part that cannot be sent.
    const stop = new AbortController()
    const cancel = () => stop.abort()
    upload.abort.signal.addEventListener('abort', cancel)
    const send = async (part) => {
      const to = Math.min(part.from + step, upload.size)
      part.etag = await this.piece(upload, [['partNumber', part.number], ['uploadId', id]], part.from, to, {}, stop.signal, (bytes) => {
        upload.sent += bytes - part.sent
        part.sent = bytes
        this.changed()
      })
    }
    try {
      let next = 0
      let broken = null // the first failure; the other parts' is that they were stopped
      const worker = async () => {
        try {
          while (next < parts.length && !stop.signal.aborted) await send(parts[next++])
        } catch (error) {
          broken ||= error
          stop.abort()
        }
      }
      if (upload.abort.signal.aborted) stop.abort()
      await Promise.all(Array.from({ length: partsAtOnce }, worker))
      if (upload.abort.signal.aborted) throw cancelled()
      if (broken) throw broken
      const list = parts.map((part) => `<Part><PartNumber>${part.number}</PartNumber><ETag>${escape(part.etag)}</ETag></Part>`).join('')
      const done = await session.object('POST', bucket, key, {
        query: [['uploadId', id]], body: `<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`
      })
      const top = parse(await done.text())
      if (top.name === 'Error') throw new ApiError(200, top.get('Code'), top.get('Message'))
    } catch (error) {
      await session.object('DELETE', bucket, key, { query: [['uploadId', id]] }).catch(() => {})
      throw error
    } finally {
      upload.abort.signal.removeEventListener('abort', cancel)
    }
  }
}

const typed = (upload) => ({ 'content-type': upload.file.type || 'application/octet-stream' })

// The files of a drop, folders and all: [{name, file}]; `name` with the folders before it.
export async function filesOf(transfer) {
  const entries = Array.from(transfer.items || []).map((item) => item.webkitGetAsEntry?.()).filter(Boolean)
  if (entries.length === 0) return Array.from(transfer.files).map((file) => ({ name: file.name, file }))
  const found = []
  const walk = async (entry, before) => {
    if (entry.isFile) {
      found.push({ name: before + entry.name, file: await new Promise((done, failed) => entry.file(done, failed)) })
      return
    }
    const reader = entry.createReader()
    for (;;) {
      const some = await new Promise((done, failed) => reader.readEntries(done, failed))
      if (some.length === 0) return
      for (const one of some) await walk(one, `${before}${entry.name}/`)
    }
  }
  for (const entry of entries) await walk(entry, '')
  return found
}
