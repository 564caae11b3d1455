import { html } from 'htm/preact'
import { useEffect, useRef } from 'preact/hooks'
import { Session } from './api.js'
import { Field, Problem, useAction } from './ui.js'

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
  useEffect(() => void (document.title = 'Sign in – Verbena'), [])
  const able = globalThis.isSecureContext && globalThis.crypto?.subtle
  return html`
    <main class="signin">
      <form ref=${form} onSubmit=${submit} aria-labelledby="hello">
        <${mark} />
        <h1 id="hello">Verbena</h1>
        <p class="lead">Sign in with an access key. The secret stays in this page and is forgotten with it.</p>
        ${!able && html`<p class="problem" role="alert">Browsers sign only on encrypted or local connections. Open this page by https, or through a tunnel to localhost.</p>`}
        ${why && !error && html`<p class="note" role="status">${why}</p>`}
        <${Field} label="Access key" name="access" required autofocus maxlength="128" />
        <${Field} label="Secret key" name="secret" type="password" required maxlength="256" />
        <details><summary>Temporary credentials</summary><${Field} label="Session token" name="token" type="password" maxlength="8192" /></details>
        <${Problem} error=${error && friendly(error)} />
        <button class="button main wide" disabled=${busy || !able}><span>${busy ? 'Signing in…' : 'Sign in'}</span></button>
      </form>
    </main>`
}

function friendly(error) {
  const said = {
    InvalidClientTokenId: 'The server knows no such access key.',
    InvalidAccessKeyId: 'The server knows no such access key.',
    SignatureDoesNotMatch: 'The secret key does not belong to this access key.',
    SlowDown: 'Too many wrong tries from this address. Wait a minute.',
    Throttling: 'Too many wrong tries from this address. Wait a minute.'
  }[error.code]
  return said ? new Error(said) : error
}
