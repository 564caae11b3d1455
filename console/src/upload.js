// Uploads, of any size in bounded memory: a file is read piece by piece, and each piece is signed with its SHA-256, so the
// server stores what this machine has read. A piece is in memory while it is hashed; the browser then sends it from the
// file, and the server refuses it if the file has changed in between. Before it is sent again it is hashed again.
import { ApiError, pathOf, reachable } from './api.js'
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

class Slots {
  constructor(free) {
    this.free = free
    this.waiting = []
  }
  async take() {
    if (this.free > 0) --this.free
    else await new Promise((go) => this.waiting.push(go))
  }
  give() {
    const next = this.waiting.shift()
    if (next) next()
    else ++this.free
  }
}

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
      if (signal.aborted) return failed(new ApiError(0, '', 'Cancelled'))
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
        end(session.refused(new ApiError(request.status, code, message)))
      }
      request.onerror = () => end(new ApiError(0, '', 'The connection broke'))
      request.onabort = () => end(new ApiError(0, '', 'Cancelled'))
      signal.addEventListener('abort', abort)
      request.send(piece)
    }, failed)
  })
}

export class Uploads {
  constructor(session) {
    this.session = session
    this.list = []
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
    return this.list.filter((one) => one.state === 'waiting' || one.state === 'running').length
  }

  add(bucket, key, file, onDone) {
    const upload = { id: ++this.ids, bucket, key, file, size: file.size, sent: 0, state: 'waiting', error: '', abort: new AbortController() }
    this.list = [upload, ...this.list]
    this.changed()
    this.run(upload).then(onDone)
  }

  cancel(upload) {
    upload.abort.abort()
  }

  clear() {
    this.list = this.list.filter((one) => one.state === 'waiting' || one.state === 'running')
    this.changed()
  }

  async run(upload) {
    await this.files.take()
    upload.state = 'running'
    upload.began = performance.now()
    try {
      if (upload.abort.signal.aborted) throw new ApiError(0, '', 'Cancelled')
      if (!reachable(upload.key)) throw new ApiError(0, '', 'A browser cannot send a name with “.” or “..” between slashes')
      if (upload.size <= partSize(0)) await this.whole(upload)
      else await this.inParts(upload)
      upload.state = 'done'
      upload.sent = upload.size
    } catch (error) {
      upload.state = upload.abort.signal.aborted ? 'cancelled' : 'failed'
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

  // One piece; failures that may pass are retried.
  async piece(upload, query, from, to, headers, sent) {
    const path = pathOf(upload.bucket, upload.key)
    const text = queryText(query)
    await this.parts.take()
    try {
      const piece = upload.file.slice(from, to)
      const hash = await this.hasher.hash(piece)
      for (let turn = 1; ; ++turn) {
        try {
          return await put(this.session, path + (text && `?${text}`), path, text, piece, hash, headers, upload.abort.signal, sent)
        } catch (error) {
          sent(0)
          const lasting = error.status >= 400 && error.status < 500
          if (upload.abort.signal.aborted || lasting || turn === tries) throw error
          await new Promise((go) => setTimeout(go, retryMs * 2 ** turn))
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
    return this.piece(upload, [], 0, upload.size, typed(upload), (bytes) => {
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
    const send = async (part) => {
      const to = Math.min(part.from + step, upload.size)
      part.etag = await this.piece(upload, [['partNumber', part.number], ['uploadId', id]], part.from, to, {}, (bytes) => {
        upload.sent += bytes - part.sent
        part.sent = bytes
        this.changed()
      })
    }
    try {
      let next = 0
      const worker = async () => {
        while (next < parts.length && !upload.abort.signal.aborted) await send(parts[next++])
      }
      const ends = await Promise.allSettled(Array.from({ length: partsAtOnce }, worker))
      const broken = ends.find((one) => one.status === 'rejected')
      if (broken) throw broken.reason
      if (upload.abort.signal.aborted) throw new ApiError(0, '', 'Cancelled')
      const list = parts.map((part) => `<Part><PartNumber>${part.number}</PartNumber><ETag>${escape(part.etag)}</ETag></Part>`).join('')
      const done = await session.object('POST', bucket, key, {
        query: [['uploadId', id]], body: `<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`
      })
      const top = parse(await done.text())
      if (top.name === 'Error') throw new ApiError(200, top.get('Code'), top.get('Message'))
    } catch (error) {
      await session.object('DELETE', bucket, key, { query: [['uploadId', id]] }).catch(() => {})
      throw error
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
