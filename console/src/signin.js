import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Session } from './api.js'
import { arrival, finish, leave, settings } from './oidc.js'
import { byDirectory } from './sts.js'
import { Field, Problem, useAction } from './ui.js'

// Checked once, when the page is loaded: completes a sign-in that returned from a provider.
let back = arrival()

export function SignIn({ mark, why, onIn }) {
  const form = useRef()
  const [run, busy, error] = useAction(async (keys) => {
    const session = await Session.open({ accessKey: keys.access.trim(), secret: keys.secret.trim(), token: keys.token.trim() })
    form.current?.reset()
    onIn(session)
  })
  const submit = (event) => {
    event.preventDefault()
    run(Object.fromEntries(new FormData(event.target)))
  }
  const [provider, setProvider] = useState(null)
  const [directory, setDirectory] = useState(null)
  const [goThere, going, goneWrong] = useAction(({ role }) => leave(provider, role.trim()))
  const [comeBack, coming, cameWrong] = useAction(async (came, from) => onIn(await Session.open(await finish(came, from))))
  const [lost, setLost] = useState(null) // why a sign-in that returned from a provider failed
  useEffect(() => {
    const came = back
    back = null
    settings().then((found) => {
      const named = found.issuer && found.client
      if (named) setProvider(found)
      if (found.directory) setDirectory(found)
      if (came && !named) throw new Error('This server no longer names a provider. Sign in with a key.')
      if (came) comeBack(came, found)
    }).catch((error) => came && setLost(new Error(`The sign-in at the provider did not succeed: ${error.message}`)))
  }, [])
  useEffect(() => void (document.title = 'Sign in – Verbena'), [])
  const able = globalThis.isSecureContext && globalThis.crypto?.subtle
  return html`
    <main class="signin"><div>
      <form ref=${form} onSubmit=${submit} aria-labelledby="hello">
        <${mark} />
        <h1 id="hello">Verbena</h1>
        <p class="lead">Sign in with an access key. The secret stays in this page and is forgotten with it.</p>
        ${!able && html`<p class="problem" role="alert">Browsers sign only on encrypted or local connections. Open this page by https, or through a tunnel to localhost.</p>`}
        ${why && !error && html`<p class="note" role="status">${why}</p>`}
        <${Field} label="Access key" name="access" required autofocus maxlength="128" />
        <${Field} label="Secret key" name="secret" type="password" required maxlength="256" />
        <details><summary>Temporary credentials</summary><${Field} label="Session token" name="token" type="password" maxlength="8192" /></details>
        <${Problem} error=${lost} />
        <${Problem} error=${error && friendly(error)} />
        <button class="button main wide" disabled=${busy || !able}><span>${busy ? 'Signing in…' : 'Sign in'}</span></button>
      </form>
      ${directory && html`<${Directory} named=${directory.directory_role} able=${able} onIn=${onIn} />`}
      ${provider && html`<form onSubmit=${(event) => { event.preventDefault(); goThere(Object.fromEntries(new FormData(event.target))) }} aria-label="Sign in with ${new URL(provider.issuer).host}">
        <p class="lead">Or with your account at <b>${new URL(provider.issuer).host}</b>.</p>
        ${provider.role ? html`<details><summary>Another role</summary><${Field} label="Role ARN" name="role" required value=${provider.role} maxlength="2048" /></details>`
          : html`<${Field} label="Role ARN" name="role" required maxlength="2048" placeholder="arn:aws:iam::…:role/…" />`}
        <${Problem} error=${goneWrong || cameWrong} />
        <button class="button wide" disabled=${going || coming || !able}><span>${coming ? 'Signing in…' : `Sign in with ${new URL(provider.issuer).host}`}</span></button>
      </form>`}</div>
    </main>`
}

// Sign-in with a name and password of the operator's directory.
function Directory({ named, able, onIn }) {
  const form = useRef()
  const [run, busy, error] = useAction(async (typed) => {
    form.current.elements.password.value = '' // only the request has it now
    onIn(await Session.open(await byDirectory({ name: typed.name.trim(), password: typed.password, role: typed.role.trim() })))
  })
  const submit = (event) => {
    event.preventDefault()
    run(Object.fromEntries(new FormData(event.target)))
  }
  const label = 'Role ARN'
  return html`
    <form ref=${form} onSubmit=${submit} aria-label="Sign in with your name and password">
      <p class="lead">Or with your name and password in the directory.</p>
      <${Field} label="User name" name="name" required maxlength="256" />
      <${Field} label="Password" name="password" type="password" required maxlength="1024" />
      ${named ? html`<details><summary>Another role</summary><${Field} label=${label} name="role" maxlength="2048" placeholder="arn:aws:iam::…:role/…" /></details>`
        : html`<${Field} label=${label} name="role" required maxlength="2048" placeholder="arn:aws:iam::…:role/…" />`}
      <${Problem} error=${error && friendlyDirectory(error)} />
      <button class="button wide" disabled=${busy || !able}><span>${busy ? 'Signing in…' : 'Sign in by the directory'}</span></button>
    </form>`
}

function friendlyDirectory(error) {
  const said = {
    SlowDown: 'The directory is not being asked: too many wrong passwords, or too many sign-ins at once. Wait a few minutes.',
    Throttling: 'The directory is not being asked: too many wrong passwords, or too many sign-ins at once. Wait a few minutes.'
  }[error.code]
  return said ? new Error(said) : error
}

function friendly(error) {
  const said = {
    InvalidClientTokenId: 'The server does not know this access key.',
    InvalidAccessKeyId: 'The server does not know this access key.',
    SignatureDoesNotMatch: 'The secret key does not belong to this access key.',
    ExpiredToken: 'These temporary credentials have ended.',
    SlowDown: 'Too many wrong attempts from this address. Wait a minute.',
    Throttling: 'Too many wrong attempts from this address. Wait a minute.'
  }[error.code]
  return said ? new Error(said) : error
}
