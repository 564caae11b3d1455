// Who is signed in: which pages he gets, and that he hears of it when his credentials end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Session } from '../../../console/src/api.js'
import { ending } from '../../../console/src/expiry.js'
import { seesLive, serverTabs } from '../../../console/src/operate.js'

globalThis.location = { host: 'store.example.com', origin: 'https://store.example.com' }

const identity = (arn) => `<R><GetCallerIdentityResult><Arn>${arn}</Arn><Account>000000000000</Account></GetCallerIdentityResult></R>`

// A server that says who asks, what he may, and what its numbers are.
function serve({ arn = 'arn:aws:iam::000000000000:user/olga', calls = [], metrics = 403, answer }) {
  const asked = []
  globalThis.fetch = async (url) => {
    asked.push(url)
    if (answer) return answer(url)
    if (url === '/') return new Response(identity(arn))
    if (url === '/-/admin/rights') return calls ? new Response(JSON.stringify({ calls })) : new Response('<Error><Code>AccessDenied</Code></Error>', { status: 403 })
    if (url === '/-/metrics') return new Response(metrics === 200 ? 'verbena_up 1\n' : '<Error><Code>AccessDenied</Code></Error>', { status: metrics })
    throw new Error(`nobody asks for ${url}`)
  }
  return asked
}

const open = (more = {}) => Session.open({ accessKey: 'AK', secret: 'sk', ...more })
const names = (session) => serverTabs(session.may).map(([id]) => id)

test('each page about the server is there for whose rights fit it, and rights are asked for once', async () => {
  const asked = serve({ calls: ['audit', 'logs'] })
  const auditor = await open()
  assert.deepEqual(names(auditor), ['audit', 'log'])
  assert.equal(seesLive(auditor.may), false)
  assert.equal(asked.filter((url) => url === '/-/admin/rights').length, 1)
  serve({ calls: ['doctor'] })
  assert.deepEqual(names(await open()), ['about'])
  serve({ calls: ['info', 'top', 'sessions', 'session-end', 'events'], metrics: 200 })
  const operator = await open()
  assert.deepEqual(names(operator), ['about', 'sessions', 'events', 'upkeep'])
  assert.equal(seesLive(operator.may), true)
  serve({ calls: ['info', 'top'], metrics: 403 })
  assert.equal(seesLive((await open()).may), false, 'the page is made of metrics')
})

test('who may nothing of the kind gets none, and is not asked for metrics', async () => {
  for (const calls of [[], null]) {
    const asked = serve({ calls, metrics: 200 })
    const session = await open()
    assert.deepEqual(names(session), [])
    assert.equal(seesLive(session.may), false)
    assert.ok(!asked.includes('/-/metrics'))
  }
})

// The pages were gone for the whole session, as if the rights were.
test('who cannot be told his rights just now is not signed in without them', async () => {
  const failing = (path, answer) => serve({ answer: (url) => {
    if (url === path) return answer()
    return new Response(url === '/' ? identity('arn:aws:iam::000000000000:user/olga') : JSON.stringify({ calls: ['info'] }))
  } })
  const refusal = (status, code) => () => new Response(code && `<Error><Code>${code}</Code></Error>`, { status })
  for (const path of ['/-/admin/rights', '/-/metrics']) {
    for (const [status, code] of [[503, 'SlowDown'], [500, 'InternalError'], [502, ''], [429, ''], [400, 'RequestTimeout'], [403, 'SignatureDoesNotMatch']]) {
      failing(path, refusal(status, code))
      await assert.rejects(open(), { status }, `${path} ${status} ${code}`)
    }
    failing(path, () => { throw new TypeError('Failed to fetch') })
    await assert.rejects(open(), TypeError)
    for (const [status, code] of [[403, 'AccessDenied'], [403, ''], [400, 'InvalidAction'], [404, ''], [405, 'MethodNotAllowed']]) {
      failing(path, refusal(status, code))
      assert.deepEqual([...(await open()).may], path === '/-/metrics' ? ['info'] : [], `${status} ${code}`)
    }
  }
})

test('a signature takes the time of the server that found it too old, and no time from an answer without one', async () => {
  const session = await (serve({}), open())
  const times = []
  const skewed = (headers) => async (url, { headers: { 'x-amz-date': time } }) => {
    times.push(time)
    return times.length === 1 ? new Response('<Error><Code>RequestTimeTooSkewed</Code></Error>', { status: 403, headers }) : new Response('')
  }
  globalThis.fetch = skewed({ date: 'Mon, 02 Jan 2006 15:04:05 GMT' })
  await session.call('GET', '/b/k')
  assert.equal(times.length, 2)
  assert.match(times[1], /^20060102T1504/)
  times.length = 0
  session.signer.skewMs = 7
  globalThis.fetch = skewed({})
  await session.call('GET', '/b/k')
  assert.equal(session.signer.skewMs, 7)
})

test('when credentials end is kept, and whoever wants to hears that they have ended', async () => {
  serve({})
  assert.equal((await open()).expires, 0)
  const session = await open({ token: 'st', expires: '2026-01-02T03:04:05Z' })
  assert.equal(session.expires, Date.parse('2026-01-02T03:04:05Z'))
  let heard = 0
  session.onExpired = () => void ++heard
  serve({ answer: () => new Response('<Error><Code>ExpiredToken</Code><Message>over</Message></Error>', { status: 400 }) })
  await assert.rejects(session.call('GET', '/b/k'), { code: 'ExpiredToken' })
  assert.equal(heard, 1)
  serve({ answer: () => new Response('<Error><Code>NoSuchKey</Code></Error>', { status: 404 }) })
  await assert.rejects(session.call('GET', '/b/k'), { code: 'NoSuchKey' })
  assert.equal(heard, 1)
})

test('who has five minutes left is warned', () => {
  const now = 1e12
  assert.deepEqual(ending(0, now), { over: false, warning: '' })
  assert.equal(ending(now + 301_000, now).warning, '')
  assert.match(ending(now + 300_000, now).warning, /in 5 minutes/)
  assert.match(ending(now + 1, now).warning, /in 1 minute:/)
  assert.deepEqual(ending(now, now), { over: true, warning: '' })
})
