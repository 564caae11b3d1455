// Signing in by an OpenID Connect provider: the browser goes there and comes back with a code (RFC 6749), which this page
// alone can change for a token (PKCE, RFC 7636); the token is changed for temporary credentials by STS, as SDKs do it.
import { sha256 } from './sign.js'
import { assumeRole } from './sts.js'

// State that the page needs after the redirect; removed once it is read.
const kept = 'verbena-sign-in'
const minutes = 10 // for a person to sign in there

const url64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
const random = () => url64(crypto.getRandomValues(new Uint8Array(32)))
const here = () => location.origin + '/-/console/'

async function json(url, options) {
  const answer = await fetch(url, { credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer', ...options })
  const said = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new Error(said.error_description || said.error || `${new URL(url, location.href).host} answered with status ${answer.status}`)
  return said
}

// {issuer, client, role, directory, directory_role}; none of them: sign-in by keys only.
export const settings = () => json('sign-in.json')

async function configuration(issuer) {
  const found = await json(issuer.replace(/\/$/, '') + '/.well-known/openid-configuration').catch((error) => {
    throw new Error(`${new URL(issuer).host} does not say how people sign in: ${error.message}`)
  })
  if (found.issuer !== issuer) throw new Error(`The provider calls itself ${found.issuer}, not ${issuer}.`)
  return found
}

export async function leave({ issuer, client }, role) {
  const found = await configuration(issuer)
  const [verifier, state, nonce] = [random(), random(), random()]
  const target = new URL(found.authorization_endpoint)
  if (target.protocol !== 'https:') throw new Error('The provider’s sign-in page is not encrypted.')
  sessionStorage.setItem(kept, JSON.stringify({ verifier, state, nonce, role, until: Date.now() + minutes * 60000 }))
  const asked = { response_type: 'code', client_id: client, redirect_uri: here(), scope: 'openid', state, nonce, code_challenge: url64(await sha256(verifier)), code_challenge_method: 'S256' }
  for (const [name, value] of Object.entries(asked)) target.searchParams.set(name, value)
  location.assign(target)
}

// The provider's answer in the address; null: there is none. The address and the kept state are cleaned at once, whatever
// the outcome.
export function arrival() {
  const said = new URLSearchParams(location.search)
  const text = sessionStorage.getItem(kept)
  sessionStorage.removeItem(kept)
  if (!said.has('code') && !said.has('error')) return null
  history.replaceState(null, '', here() + location.hash)
  return { said, before: keptIn(text) }
}

function keptIn(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

// Keys for a session of it.
export async function finish({ said, before }, { issuer, client }) {
  if (!before || before.state !== said.get('state') || Date.now() > before.until) throw new Error('This sign-in did not begin here, or it took too long. Try again.')
  if (said.has('error')) throw new Error(said.get('error_description') || said.get('error'))
  if (said.has('iss') && said.get('iss') !== issuer) throw new Error('Another provider has answered.') // RFC 9207
  const found = await configuration(issuer)
  const body = new URLSearchParams({ grant_type: 'authorization_code', code: said.get('code'), redirect_uri: here(), client_id: client, code_verifier: before.verifier })
  const { id_token: token } = await json(found.token_endpoint, { method: 'POST', body })
  const claims = claimsOf(token)
  if (claims.nonce !== before.nonce) throw new Error('The token is not for this sign-in.')
  return assume(token, before.role, claims)
}

// Not verified: the server does that.
function claimsOf(token) {
  try {
    const text = atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))))
  } catch {
    throw new Error('The provider has sent no token.')
  }
}

function assume(token, role, claims) {
  const name = String(claims.email || claims.preferred_username || claims.sub || '').replace(/[^\w+=,.@-]/g, '-').slice(0, 64)
  return assumeRole('AssumeRoleWithWebIdentity', { RoleArn: role, RoleSessionName: name.length < 2 ? 'console' : name, WebIdentityToken: token })
}
