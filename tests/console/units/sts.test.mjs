// How the console asks STS for somebody who has no key (console/src/sts.js).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byDirectory } from '../../../console/src/sts.js'

let asked
const answering = (text, status = 200) => {
  asked = []
  globalThis.fetch = async (url, options) => {
    asked.push({ url: String(url), ...options })
    return new Response(text, { status })
  }
}
const credentials = '<R><AssumeRoleWithLDAPIdentityResult><Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>sk</SecretAccessKey><SessionToken>st</SessionToken>' +
  '<Expiration>2026-01-02T03:04:05Z</Expiration></Credentials></AssumeRoleWithLDAPIdentityResult></R>'

test('name and password go in the body of one call, and keys come back', async () => {
  answering(credentials)
  const keys = await byDirectory({ name: 'al ice+', password: 'p&w=d %', role: 'arn:r' })
  assert.deepEqual(keys, { accessKey: 'AK', secret: 'sk', token: 'st', expires: '2026-01-02T03:04:05Z' })
  assert.equal(asked.length, 1)
  const [{ url, method, body, credentials: cookies }] = asked
  assert.deepEqual([url, method, cookies], ['/', 'POST', 'omit'])
  const sent = new URLSearchParams(body)
  assert.deepEqual([sent.get('Action'), sent.get('LDAPUsername'), sent.get('LDAPPassword'), sent.get('RoleArn')], ['AssumeRoleWithLDAPIdentity', 'al ice+', 'p&w=d %', 'arn:r'])
})

test('without a role the server takes its own', async () => {
  answering(credentials)
  await byDirectory({ name: 'alice', password: 'p', role: '' })
  assert.equal(new URLSearchParams(asked[0].body).has('RoleArn'), false)
})

test('a refusal has the server’s words and code', async () => {
  answering('<ErrorResponse><Error><Code>SlowDown</Code><Message>later</Message></Error></ErrorResponse>', 503)
  await assert.rejects(byDirectory({ name: 'alice', password: 'p', role: '' }), { code: 'SlowDown', message: 'later', status: 503 })
})
