// What the console refuses of a provider's answers (console/src/oidc.js), with a provider that says what it is told to.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { arrival, finish, leave } from '../../../console/src/oidc.js'

const issuer = 'https://id.example.com/realm'
const provider = { issuer, client: 'console' }
const store = new Map()
let asked, left, world

globalThis.sessionStorage = { getItem: (name) => store.get(name) ?? null, setItem: (name, text) => void store.set(name, text), removeItem: (name) => void store.delete(name) }
globalThis.history = { replaceState: (state, title, url) => void (world.url = url) }
globalThis.location = { origin: 'https://store.example.com', search: '', hash: '', href: 'https://store.example.com/-/console/', assign: (url) => void (left = new URL(url)) }

const part = (object) => Buffer.from(JSON.stringify(object)).toString('base64url')
const credentials = '<R><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>sk</SecretAccessKey><SessionToken>st</SessionToken>' +
  '<Expiration>2026-01-02T03:04:05Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></R>'

globalThis.fetch = async (url, options = {}) => {
  asked.push({ url: String(url), body: String(options.body || '') })
  if (String(url).endsWith('/.well-known/openid-configuration')) return new Response(JSON.stringify(world.configuration), { status: world.status })
  if (String(url) === world.configuration.token_endpoint) return new Response(JSON.stringify(world.token))
  if (url === '/') return new Response(world.sts, { status: world.stsStatus })
  throw new Error(`nobody asks for ${url}`)
}

beforeEach(() => {
  asked = []
  left = null
  store.clear()
  world = {
    status: 200,
    configuration: { issuer, authorization_endpoint: `${issuer}/authorize?tenant=1`, token_endpoint: `${issuer}/token` },
    token: { id_token: `h.${part({ nonce: 'n', sub: 'alice' })}.s` },
    sts: credentials,
    stsStatus: 200
  }
})

const back = (said, before = {}) => ({ said: new URLSearchParams(said), before: before && { verifier: 'v', state: 's', nonce: 'n', role: 'arn:r', until: Date.now() + 60_000, ...before } })
const nothingAsked = () => assert.deepEqual(asked, [])
const noRoleAsked = () => assert.ok(asked.every(({ url }) => url !== '/'), 'STS was asked')

test('who comes back as he left gets the keys, and when they end', async () => {
  const keys = await finish(back({ code: 'c', state: 's', iss: issuer }), provider)
  assert.deepEqual(keys, { accessKey: 'AK', secret: 'sk', token: 'st', expires: '2026-01-02T03:04:05Z' })
  const sent = new URLSearchParams(asked.find(({ url }) => url.endsWith('/token')).body)
  assert.deepEqual([sent.get('code'), sent.get('code_verifier'), sent.get('client_id')], ['c', 'v', 'console'])
})

test('another state, or none that was kept, is refused before anybody is asked', async () => {
  for (const came of [back({ code: 'c', state: 'other' }), back({ code: 'c' }), back({ code: 'c', state: 's' }, null)]) {
    await assert.rejects(finish(came, provider), /did not begin here/)
  }
  nothingAsked()
})

test('who took too long is refused', async () => {
  await assert.rejects(finish(back({ code: 'c', state: 's' }, { until: Date.now() - 1 }), provider), /took too long/)
  nothingAsked()
})

test('an answer of another provider is refused before the code is told to anybody', async () => {
  await assert.rejects(finish(back({ code: 'c', state: 's', iss: 'https://evil.example.com' }), provider), /Another provider/)
  nothingAsked()
})

test("what the provider says instead of a code is told", async () => {
  await assert.rejects(finish(back({ error: 'access_denied', error_description: 'not today', state: 's' }), provider), /not today/)
  nothingAsked()
})

test('a configuration of another issuer gets no code', async () => {
  world.configuration.issuer = 'https://id.example.com'
  await assert.rejects(finish(back({ code: 'c', state: 's' }), provider), /calls itself/)
  assert.equal(asked.length, 1)
  await assert.rejects(leave(provider, 'arn:r'), /calls itself/)
  assert.equal(left, null)
})

test('a token with another nonce, or with none, is given to nobody', async () => {
  for (const claims of [{ nonce: 'other' }, {}]) {
    world.token = { id_token: `h.${part(claims)}.s` }
    await assert.rejects(finish(back({ code: 'c', state: 's' }), provider), /not for this sign-in/)
  }
  for (const token of [undefined, '', 'x', 'a.b.c', 7, null]) {
    world.token = { id_token: token }
    await assert.rejects(finish(back({ code: 'c', state: 's' }), provider), /no token/)
  }
  noRoleAsked()
})

test('what the server says against it is told', async () => {
  world.sts = '<ErrorResponse><Error><Code>AccessDenied</Code><Message>the role does not trust you</Message></Error></ErrorResponse>'
  world.stsStatus = 403
  await assert.rejects(finish(back({ code: 'c', state: 's' }), provider), /does not trust you/)
})

test('nobody is sent to a page without encryption', async () => {
  for (const where of ['http://id.example.com/authorize', 'javascript:alert(1)', 'data:text/html,x', undefined]) {
    world.configuration.authorization_endpoint = where
    await assert.rejects(leave(provider, 'arn:r'))
    assert.equal(left, null)
    assert.equal(store.size, 0, 'nothing is kept for somebody who has not left')
  }
})

test('who leaves takes a challenge along, and keeps its secret', async () => {
  await leave(provider, 'arn:r')
  const kept = JSON.parse(store.get('verbena-sign-in'))
  const said = left.searchParams
  assert.equal(left.origin + left.pathname, `${issuer}/authorize`)
  assert.equal(said.get('tenant'), '1')
  assert.deepEqual([said.get('state'), said.get('nonce'), said.get('code_challenge_method')], [kept.state, kept.nonce, 'S256'])
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(kept.verifier))
  assert.equal(said.get('code_challenge'), Buffer.from(hash).toString('base64url'))
  assert.ok(!left.href.includes(kept.verifier))
  assert.ok(kept.until > Date.now() && kept.until <= Date.now() + 600_000)
})

test('whoever comes back is noticed, and nothing is left behind', () => {
  for (const [search, kept, comes] of [['', null, false], ['?x=1', '{"state":"s"}', false], ['?code=c&state=s', '{"state":"s"}', true], ['?error=server_error', null, true],
    ['?code=c&state=s', 'no JSON', true]]) {
    store.clear()
    if (kept) store.set('verbena-sign-in', kept)
    location.search = search
    world.url = ''
    const came = arrival()
    assert.equal(Boolean(came), comes, search)
    assert.equal(store.size, 0)
    assert.equal(world.url, comes ? 'https://store.example.com/-/console/' : '')
  }
})
