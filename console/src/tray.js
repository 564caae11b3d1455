// The list of uploads, shown on every page.
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { plural, shown, size } from './text.js'
import { Button, announce } from './ui.js'

const shownMax = 50

export function Tray({ uploads }) {
  const [, again] = useState(0)
  useEffect(() => uploads.subscribe(() => again((n) => n + 1)), [uploads])
  const running = uploads.running
  useEffect(() => {
    if (uploads.list.length > 0 && running === 0) announce('All uploads have ended')
  }, [running])
  if (uploads.list.length === 0) return null
  const { failed } = uploads.counts
  return html`
    <section class="tray" aria-label="Uploads">
      <header><h2>${running > 0 ? `Uploading ${plural(running, 'file')}` : failed ? `${plural(failed, 'upload')} failed` : 'Uploads are done'}</h2>
        ${running === 0 && html`<${Button} icon="close" label="Close" kind="quiet" onClick=${() => uploads.clear()} />`}</header>
      <ul>${uploads.newest(shownMax).map((one) => html`<${Line} key=${one.id} one=${one} uploads=${uploads} />`)}</ul>
      ${uploads.list.length > shownMax && html`<p class="hint">and ${plural(uploads.list.length - shownMax, 'more file')}</p>`}
    </section>`
}

function Line({ one, uploads }) {
  const open = one.state === 'waiting' || one.state === 'running'
  const took = ((one.ended || performance.now()) - one.began) / 1000
  const speed = one.state === 'running' && took > 1 ? ` · ${size(one.sent / took)}/s` : ''
  const said = {
    waiting: 'waits', running: `${size(one.sent)} of ${size(one.size)}${speed}`, done: size(one.size), cancelled: 'cancelled', failed: one.error
  }[one.state]
  return html`<li class=${one.state}>
    <div><b title=${shown(one.key)}>${shown(one.key.split('/').pop() || one.key)}</b><small>${said}</small></div>
    ${open && html`<${Button} icon="close" kind="quiet" label="Cancel ${shown(one.key)}" onClick=${() => uploads.cancel(one)} />`}
    ${open && html`<progress max=${one.size || 1} value=${one.sent} aria-label="Upload of ${shown(one.key)}" />`}
  </li>`
}
