// Signature Version 4, made in the browser. The secret becomes a key that WebCrypto uses and does not reveal, not
// even to this page; it is gone when the page is closed.
import { wellFormed } from './text.js'

const bytes = (text) => new TextEncoder().encode(text)
export const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, '0')).join('')
export const sha256 = (data) => crypto.subtle.digest('SHA-256', typeof data === 'string' ? bytes(data) : data)
export const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))

// AWS's UriEncode.
export function encode(text, keepSlash = false) {
  const all = encodeURIComponent(wellFormed(text)).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase())
  return keepSlash ? all.replaceAll('%2F', '/') : all
}

export function queryText(pairs) {
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0)
  return pairs.map(([name, value]) => `${encode(name)}=${encode(String(value))}`).sort(order).join('&')
}

const importKey = (raw) => crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
const hmac = async (key, text) => crypto.subtle.sign('HMAC', key, bytes(text))

export class Signer {
  static async open({ accessKey, secret, token }) {
    const signer = new Signer()
    signer.accessKey = accessKey
    signer.token = token || ''
    signer.root = await importKey(bytes('AWS4' + secret))
    signer.region = 'us-east-1'
    signer.skewMs = 0 // of this machine's clock against the server's
    signer.keys = new Map()
    return signer
  }

  now() {
    return new Date(Date.now() + this.skewMs).toISOString().replace(/[-:]|\.\d+/g, '')
  }

  async key(day, service) {
    const name = day + service
    if (!this.keys.has(name)) {
      const dated = await importKey(await hmac(this.root, day))
      const regional = await importKey(await hmac(dated, this.region))
      const serving = await importKey(await hmac(regional, service))
      this.keys.set(name, await importKey(await hmac(serving, 'aws4_request')))
    }
    return this.keys.get(name)
  }

  async signature(service, time, method, path, query, headers, signed, hash) {
    const lines = signed.map((name) => `${name}:${String(headers[name]).trim().replace(/ +/g, ' ')}\n`).join('')
    const canonical = [method, path, query, lines, signed.join(';'), hash].join('\n')
    const scope = `${time.slice(0, 8)}/${this.region}/${service}/aws4_request`
    const text = ['AWS4-HMAC-SHA256', time, scope, hex(await sha256(canonical))].join('\n')
    return { scope, value: hex(await hmac(await this.key(time.slice(0, 8), service), text)) }
  }

  // What a request needs besides `headers` (lower-case names). `path` and `query` are encoded.
  async headers({ service = 's3', method, path, query, headers = {}, hash }) {
    const time = this.now()
    const all = { ...headers, host: location.host, 'x-amz-date': time, 'x-amz-content-sha256': hash }
    if (this.token) all['x-amz-security-token'] = this.token
    const signed = Object.keys(all).sort()
    const { scope, value } = await this.signature(service, time, method, path, query, all, signed, hash)
    delete all.host // the browser adds it
    all.authorization = `AWS4-HMAC-SHA256 Credential=${this.accessKey}/${scope},SignedHeaders=${signed.join(';')},Signature=${value}`
    return all
  }

  // An address for this one object, valid for so many seconds.
  async presign({ method = 'GET', path, query = [], seconds }) {
    const time = this.now()
    const scope = `${time.slice(0, 8)}/${this.region}/s3/aws4_request`
    const pairs = [...query, ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'], ['X-Amz-Credential', `${this.accessKey}/${scope}`],
      ['X-Amz-Date', time], ['X-Amz-Expires', seconds], ['X-Amz-SignedHeaders', 'host']]
    if (this.token) pairs.push(['X-Amz-Security-Token', this.token])
    const text = queryText(pairs)
    const { value } = await this.signature('s3', time, method, path, text, { host: location.host }, ['host'], 'UNSIGNED-PAYLOAD')
    return `${location.origin}${path}?${text}&X-Amz-Signature=${value}`
  }
}
