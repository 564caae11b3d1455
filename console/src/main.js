import { html, render } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { Uploads } from './upload.js'
import { isBucketName, noBucketName } from './api.js'
import { Button, Icon, Problem } from './ui.js'
import { SignIn } from './signin.js'
import { Live } from './live.js'
import { Buckets } from './buckets.js'
import { Bucket } from './bucket.js'
import { People } from './people.js'
import { Server } from './server.js'
import { Access } from './access.js'
import { ended, ending } from './expiry.js'
import { seesLive, serverTabs } from './operate.js'
import { Tray } from './tray.js'
import { shown } from './text.js'

const idleMs = 30 * 60 * 1000 // without a key or a click; the keys are forgotten then

// "#/buckets/photos?prefix=2026%2F" -> {path: ['buckets', 'photos'], query}
function readPlace() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const plain = (part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      return part
    }
  }
  return { path: path.split('/').filter(Boolean).map(plain), query: new URLSearchParams(query) }
}

function usePlace() {
  const [place, set] = useState(readPlace)
  useEffect(() => {
    const changed = () => set(readPlace())
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return place
}

const Mark = () => html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><g class="petals">
  ${[0, 72, 144, 216, 288].map((turn) => html`<path transform="rotate(${turn} 16 16)" d="M16 15c-4.500-3-4.800-8.500-1.800-11.200.7-.6 1.300.6 1.800 1.100.5-.5 1.100-1.700 1.800-1.100 3 2.700 2.700 8.200-1.800 11.200z" />`)}
  </g><circle cx="16" cy="16" r="2.600" /></svg>`

function Frame({ session, uploads, warning, onOut }) {
  const { path, query } = usePlace()
  const live = seesLive(session.may)
  const server = serverTabs(session.may).length > 0
  const links = [
    live && ['live', 'pulse', 'Live'],
    ['buckets', 'bucket', 'Buckets'],
    ['people', 'people', 'People'],
    server && ['server', 'gear', 'Server'],
    ['access', 'key', 'Your access']
  ].filter(Boolean)
  const page = links.some(([id]) => id === path[0]) ? path[0] : !path[0] && live ? 'live' : 'buckets'
  useEffect(() => {
    document.title = `${links.find(([id]) => id === page)?.[2] || 'Console'} – Verbena`
  }, [page])
  const pages = {
    live: () => html`<${Live} session=${session} />`,
    buckets: () => isBucketName(path[1] || '')
      ? html`<${Bucket} key=${path[1]} session=${session} uploads=${uploads} name=${path[1]} tab=${path[2] || 'objects'} prefix=${query.get('prefix') || ''} />`
      : html`<${Problem} error=${path[1] && noBucketName(path[1])} /><${Buckets} session=${session} />`,
    people: () => html`<${People} session=${session} tab=${path[1] || 'users'} />`,
    server: () => html`<${Server} session=${session} tab=${path[1] || 'about'} />`,
    access: () => html`<${Access} session=${session} />`
  }
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus() }}>To the page</a>
    <div class="frame">
      <nav aria-label="Pages">
        <a class="brand" href="#/"><${Mark} /><span>Verbena</span></a>
        <ul>${links.map(([id, icon, text]) => html`<li><a href="#/${id}" aria-current=${id === page ? 'page' : undefined}><${Icon} name=${icon} />${text}</a></li>`)}</ul>
        <div class="who"><span title=${session.arn}>${shown(session.arn.replace(/^arn:aws:(iam|sts)::\d*:/, ''))}</span>
          <small>account ${session.account}</small>
          <${Button} icon="out" kind="quiet" onClick=${onOut}>Sign out<//></div>
      </nav>
      <main id="main" tabindex="-1"><div role="status">${warning && html`<p class="problem">${warning}</p>`}</div>${pages[page]()}</main>
    </div>
    <${Tray} uploads=${uploads} />`
}

function App() {
  const [state, set] = useState(null)
  const [why, setWhy] = useState('')
  const [warning, setWarning] = useState('')
  const out = (reason) => {
    state?.uploads.list.forEach((one) => state.uploads.cancel(one))
    set(null)
    setWhy(reason)
    setWarning('')
  }
  useEffect(() => {
    if (!state) return
    let last = Date.now()
    const seen = () => void (last = Date.now())
    const { session, uploads } = state
    const look = () => {
      if (uploads.running > 0) seen()
      const { over, warning: text } = ending(session.expires, Date.now() + session.signer.skewMs)
      if (over) return out(ended)
      setWarning(text)
      if (Date.now() - last > idleMs) out('You were signed out after half an hour without input.')
    }
    const looking = setInterval(look, 10000)
    session.onExpired = () => out(ended)
    look()
    const leaving = (event) => state.uploads.running > 0 && event.preventDefault()
    for (const name of ['keydown', 'pointerdown']) addEventListener(name, seen, true)
    addEventListener('beforeunload', leaving)
    return () => {
      clearInterval(looking)
      session.onExpired = null
      for (const name of ['keydown', 'pointerdown']) removeEventListener(name, seen, true)
      removeEventListener('beforeunload', leaving)
    }
  }, [state])
  if (!state) return html`<${SignIn} mark=${Mark} why=${why} onIn=${(session) => set({ session, uploads: new Uploads(session) })} />`
  return html`<${Frame} ...${state} warning=${warning} onOut=${() => out('')} />`
}

render(html`<${App} />`, document.getElementById('app'))
