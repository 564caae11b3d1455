// Calls of S3, IAM, STS and the admin API, as every other client makes them.
import { Signer, base64, encode, hex, queryText, sha256 } from './sign.js'
import { escape, parse } from './xml.js'

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message || code || `Status ${status}`)
    this.status = status
    this.code = code
  }
}

// A request whose signature is too old or too new for the server.
export const skewed = 'RequestTimeTooSkewed'

// No rights, or no such call there. A proxy's refusal has no code.
const withoutRights = ({ status, code }) => ['AccessDenied', 'InvalidAction'].includes(code) || status === 404 || status === 405 || (status === 403 && !code)

const emptyHash = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

async function errorOf(response) {
  const text = await response.text().catch(() => '')
  try {
    if (text.startsWith('{')) {
      const { error } = JSON.parse(text)
      return new ApiError(response.status, error.code, error.message)
    }
    const top = parse(text)
    const error = top.name === 'Error' ? top : top.at('Error')
    return new ApiError(response.status, error.get('Code'), error.get('Message'))
  } catch {
    return new ApiError(response.status, '', response.statusText)
  }
}

// A browser takes segments of one or two periods for steps in a path and leaves them out.
export const reachable = (key) => !key.split('/').some((part) => part === '.' || part === '..')
// Whether a text can be the name of a bucket, which the server judges exactly: such a text is one part of a path, as it
// is. A text with a slash, as a link to this page may have it, would name an object in the path of a request.
export const isBucketName = (text) => /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(text)
export const noBucketName = (text) => new ApiError(0, '', `“${text}” is no name of a bucket.`)
export function pathOf(bucket, key) {
  if (!isBucketName(bucket)) throw noBucketName(bucket)
  return `/${bucket}${key === undefined ? '' : '/' + encode(key, true)}`
}

export class Session {
  static async open(keys) {
    const session = new Session()
    session.signer = await Signer.open(keys)
    const who = await session.iam('sts', 'GetCallerIdentity')
    session.arn = who.get('GetCallerIdentityResult', 'Arn')
    session.account = who.get('GetCallerIdentityResult', 'Account')
    session.temporary = Boolean(keys.token)
    session.superuser = session.arn === 'arn:aws:iam::000000000000:root'
    session.expires = keys.expires ? new Date(keys.expires).getTime() : 0 // 0: it does not end, or its end is unknown
    session.may = await session.rights()
    return session
  }

  // The admin calls that this key may make; fetched once. Empty for a key without such rights. Any other failure is one
  // of signing in: pages that are missing for the whole session would look like missing rights.
  async rights() {
    const none = (error) => {
      if (withoutRights(error)) return null
      throw error
    }
    const may = new Set((await this.admin('rights').catch(none))?.calls)
    if (may.size === 0) return may
    if (this.superuser || await this.call('GET', '/-/metrics').then((answer) => answer.text(), none)) may.add('metrics')
    return may
  }

  // What an answer other than success means for the session: credentials may end at any time, `onExpired` is called
  // then; and the next signature is of the server's time, `date`, if this machine's clock differs too much.
  refused(error, date) {
    if (error.code === 'ExpiredToken') this.onExpired?.()
    const now = Date.parse(date)
    if (error.code === skewed && !Number.isNaN(now)) this.signer.skewMs = now - Date.now()
    return error
  }

  async call(method, path, { query = [], headers = {}, body, hash, service = 's3', signal, again = true } = {}) {
    const text = queryText(query)
    const payload = hash || (body === undefined ? emptyHash : hex(await sha256(body)))
    const signed = await this.signer.headers({ service, method, path, query: text, headers, hash: payload })
    const url = path + (text && `?${text}`)
    const response = await fetch(url, { method, headers: signed, body, signal, credentials: 'omit', cache: 'no-store', redirect: 'error' })
    if (response.ok) return response
    const error = this.refused(await errorOf(response), response.headers.get('date'))
    if (error.code !== skewed || !again) throw error
    return this.call(method, path, { query, headers, body, hash, service, signal, again: false })
  }

  async xml(method, path, options) {
    const text = await (await this.call(method, path, options)).text()
    return text ? parse(text) : null
  }

  // A document: S3 wants its checksum for most of them.
  async send(method, path, query, text, headers = {}) {
    const hash = await sha256(text)
    return this.call(method, path, {
      query,
      body: text,
      hash: hex(hash),
      headers: { ...headers, 'x-amz-checksum-sha256': base64(hash), 'x-amz-sdk-checksum-algorithm': 'SHA256' }
    })
  }

  async iam(service, action, parameters = {}) {
    const version = service === 'sts' ? '2011-06-15' : '2010-05-08'
    const pairs = Object.entries({ Action: action, Version: version, ...parameters }).filter(([, value]) => value !== undefined)
    const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' }
    return this.xml('POST', '/', { service, headers, body: queryText(pairs) })
  }

  // All pages of a list.
  async iamList(action, parameters, name) {
    const found = []
    for (let marker; ;) {
      const answer = (await this.iam('iam', action, { ...parameters, MaxItems: 1000, Marker: marker })).at(`${action}Result`)
      found.push(...answer.at(name).all('member'))
      if (answer.get('IsTruncated') !== 'true') return found
      marker = answer.get('Marker')
    }
  }

  async admin(call, body = {}) {
    const headers = { 'content-type': 'application/json' }
    return (await this.call('POST', `/-/admin/${call}`, { headers, body: JSON.stringify(body) })).json()
  }

  // Buckets

  async buckets() {
    const read = (top, type) => top.at('Buckets').all('Bucket').map((one) => ({
      name: one.get('Name'), created: one.get('CreationDate'), type
    }))
    const [general, directory] = await Promise.all([
      this.xml('GET', '/').then((top) => read(top, 'general purpose')),
      this.xml('GET', '/', { service: 's3express' }).then((top) => read(top, 'directory'), () => [])
    ])
    return [...general, ...directory].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async makeBucket(name, { durability, lock, zone }) {
    const headers = { 'x-verbena-durability': durability }
    if (lock) headers['x-amz-bucket-object-lock-enabled'] = 'true'
    const body = zone && '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Location><Name>' +
      `${escape(zone)}</Name><Type>AvailabilityZone</Type></Location><Bucket><DataRedundancy>SingleAvailabilityZone` +
      '</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>'
    return this.call('PUT', pathOf(name), { headers, body: body || undefined })
  }

  // A document of a bucket's; '' where it has none.
  async document(bucket, what) {
    try {
      return await (await this.call('GET', pathOf(bucket), { query: [[what, '']] })).text()
    } catch (error) {
      if (error.status === 404 && error.code !== 'NoSuchBucket') return ''
      throw error
    }
  }

  // Objects

  // A page of keys below a prefix: {keys, folders, next}.
  async list(bucket, { prefix = '', delimiter = '/', after, startAfter } = {}) {
    const query = [['list-type', 2], ['encoding-type', 'url'], ['prefix', prefix], ['max-keys', 1000]]
    if (delimiter) query.push(['delimiter', delimiter])
    if (after) query.push(['continuation-token', after])
    if (startAfter) query.push(['start-after', startAfter])
    const top = await this.xml('GET', pathOf(bucket), { query })
    return {
      keys: top.all('Contents').map((one) => ({
        key: decode(one.get('Key')), size: Number(one.get('Size')), modified: one.get('LastModified')
      })),
      folders: top.all('CommonPrefixes').map((one) => decode(one.get('Prefix'))),
      next: top.get('IsTruncated') === 'true' ? top.get('NextContinuationToken') : null
    }
  }

  // Versions and delete markers of one key, newest first; at most a thousand.
  async versions(bucket, key) {
    const top = await this.xml('GET', pathOf(bucket), { query: [['versions', ''], ['prefix', key], ['encoding-type', 'url']] })
    return top.nodes.filter((one) => ['Version', 'DeleteMarker'].includes(one.name) && decode(one.get('Key')) === key).map((one) => ({
      id: one.get('VersionId'), latest: one.get('IsLatest') === 'true', marker: one.name === 'DeleteMarker',
      size: Number(one.get('Size')), modified: one.get('LastModified')
    }))
  }

  // Returns what could not be removed: [{key, message}].
  async remove(bucket, targets) {
    const entry = ({ key, version }) => `<Object><Key>${escape(key)}</Key>${version ? `<VersionId>${escape(version)}</VersionId>` : ''}</Object>`
    const failed = []
    // XML has no way to say some characters: such names go one by one.
    const sayable = ({ key }) => !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/.test(key)
    for (const { key, version } of targets.filter((one) => !sayable(one))) {
      const query = version ? [['versionId', version]] : []
      await this.object('DELETE', bucket, key, { query }).catch((error) => failed.push({ key, message: error.message }))
    }
    targets = targets.filter(sayable)
    for (let at = 0; at < targets.length; at += 1000) {
      const text = `<Delete><Quiet>true</Quiet>${targets.slice(at, at + 1000).map(entry).join('')}</Delete>`
      const answer = await (await this.send('POST', pathOf(bucket), [['delete', '']], text)).text()
      failed.push(...parse(answer).all('Error').map((one) => ({ key: one.get('Key'), message: one.get('Message') || one.get('Code') })))
    }
    return failed
  }

  object(method, bucket, key, options = {}) {
    if (!reachable(key)) throw new ApiError(0, '', 'A browser cannot request a name with “.” or “..” between slashes. Use the command line.')
    return this.call(method, pathOf(bucket, key), options)
  }
}

function decode(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
