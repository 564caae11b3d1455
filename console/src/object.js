// The page of one object: preview, headers, tags, versions, lock.
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { pathOf, reachable } from './api.js'
import { Preview } from './preview.js'
import { parse, escape } from './xml.js'
import { date, shown, size } from './text.js'
import { Ask, Button, Check, Copy, Dialog, Field, Loading, Problem, Tabs, announce, useAction, useLoad } from './ui.js'

const downloadSeconds = 60 // until it must have begun

// By the browser itself, so that an object of any size goes to disk: an address for this object alone, for a minute.
async function download(session, bucket, key, version) {
  const name = key.split('/').pop() || 'object'
  const query = [['response-content-disposition', `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, escapeOne)}`]]
  if (version) query.push(['versionId', version])
  const link = document.createElement('a')
  link.href = await session.signer.presign({ path: pathOf(bucket, key), query, seconds: downloadSeconds })
  link.download = name
  link.rel = 'noreferrer'
  link.click()
}
const escapeOne = (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase()

export function ObjectPanel({ session, bucket, name, onClose, onGone }) {
  const [tab, setTab] = useState('look')
  const [asking, setAsking] = useState('')
  const can = reachable(name)
  const head = useLoad(async () => {
    const answer = await session.object('HEAD', bucket, name, { headers: { 'x-amz-checksum-mode': 'ENABLED' } })
    return Object.fromEntries(answer.headers)
  }, [session, bucket, name])
  const tabs = [['look', 'Preview'], ['facts', 'Details'], ['tags', 'Tags'], ['versions', 'Versions'], ['lock', 'Lock']]
  const parts = { session, bucket, name, head: head.value }
  const remove = async () => {
    const failed = await session.remove(bucket, [{ key: name }])
    if (failed.length > 0) throw new Error(failed[0].message)
    announce('Deleted')
    onGone()
  }
  return html`
    <${Dialog} side title=${shown(name)} onClose=${onClose}>
      <div class="tools">
        <${Button} icon="download" disabled=${!can} onClick=${() => download(session, bucket, name)}>Download<//>
        <${Button} icon="link" disabled=${!can} onClick=${() => setAsking('share')}>Share<//>
        <${Button} icon="trash" kind="danger" onClick=${() => setAsking('remove')}>Delete<//>
      </div>
      <${Problem} error=${head.error} />
      ${head.value && html`<${Tabs} label="About the object" tabs=${tabs} now=${tab} onChange=${setTab} />`}
      ${head.loading && !head.value && html`<${Loading} of="the object" />`}
      ${head.value && html`<div class="panel" role="tabpanel" tabindex="0" aria-label=${tabs.find(([id]) => id === tab)[1]}>
        ${tab === 'look' && html`<${Preview} ...${parts} />`}
        ${tab === 'facts' && html`<${Facts} head=${head.value} />`}
        ${tab === 'tags' && html`<${Tags} ...${parts} />`}
        ${tab === 'versions' && html`<${Versions} ...${parts} onGone=${onGone} />`}
        ${tab === 'lock' && html`<${Lock} ...${parts} />`}
      </div>`}
      ${asking === 'share' && html`<${Share} ...${parts} onClose=${() => setAsking('')} />`}
      ${asking === 'remove' && html`<${Ask} title="Delete this object?" verb="Delete" danger onClose=${() => setAsking('')} action=${remove}><p class="names">${shown(name)}</p><//>`}
    <//>`
}

function Facts({ head }) {
  const names = {
    'content-length': ['Size', (v) => `${size(v)} (${Number(v).toLocaleString('en-US')} bytes)`], 'content-type': ['Type'], 'last-modified': ['Changed', date],
    etag: ['ETag'], 'x-amz-version-id': ['Version'], 'x-amz-server-side-encryption': ['Encrypted'], 'cache-control': ['Cache-Control'],
    'content-encoding': ['Encoding'], 'content-disposition': ['Disposition'], 'x-amz-expiration': ['Expires by rule'],
    'x-amz-object-lock-mode': ['Lock'], 'x-amz-object-lock-retain-until-date': ['Kept until', date]
  }
  const known = Object.entries(names).filter(([name]) => head[name]).map(([name, [label, read]]) => [label, read ? read(head[name]) : head[name]])
  const sums = Object.entries(head).filter(([name]) => name.startsWith('x-amz-checksum-') && name !== 'x-amz-checksum-type')
    .map(([name, value]) => [name.slice(15).toUpperCase(), value])
  const own = Object.entries(head).filter(([name]) => name.startsWith('x-amz-meta-')).map(([name, value]) => [name.slice(11), value])
  const list = (rows) => html`<dl class="facts">${rows.map(([label, value]) => html`<div><dt>${shown(label)}</dt><dd>${shown(value)}</dd></div>`)}</dl>`
  return html`${list([...known, ...sums])}${own.length > 0 && html`<h3>Own metadata</h3>${list(own)}`}`
}

function Share({ session, bucket, name, onClose }) {
  const [seconds, setSeconds] = useState('3600')
  const [url, setUrl] = useState('')
  useEffect(() => {
    session.signer.presign({ path: pathOf(bucket, name), seconds }).then(setUrl)
  }, [seconds])
  return html`
    <${Dialog} title="Share" onClose=${onClose}>
      <p>Everyone who has this address can read the object, without a key, until it expires.</p>
      <${Field} label="Good for" value=${seconds} onChange=${(event) => setSeconds(event.target.value)} options=${[['900', '15 minutes'], ['3600', 'an hour'], ['86400', 'a day'], ['604800', 'a week']]} />
      ${session.temporary && html`<p class="hint">You are signed in with temporary credentials: it expires with them at the latest.</p>`}
      <${Field} label="Address" area readonly rows="5" class="url" value=${url} />
      <footer><${Copy} text=${url} label="Copy address" /></footer>
    <//>`
}

function Tags({ session, bucket, name }) {
  const tags = useLoad(async () => {
    const top = parse(await (await session.object('GET', bucket, name, { query: [['tagging', '']] })).text())
    return top.at('TagSet').all('Tag').map((tag) => [tag.get('Key'), tag.get('Value')])
  }, [session, bucket, name])
  const save = (list) => {
    const text = list.map(([key, value]) => `<Tag><Key>${escape(key)}</Key><Value>${escape(value)}</Value></Tag>`).join('')
    return session.send('PUT', pathOf(bucket, name), [['tagging', '']], `<Tagging><TagSet>${text}</TagSet></Tagging>`)
  }
  return html`<${TagEditor} tags=${tags} save=${save} />`
}

export function TagEditor({ tags, save }) {
  const [run, busy, error] = useAction(async (list) => {
    await save(list)
    await tags.again()
  })
  const add = (event) => {
    event.preventDefault()
    const form = event.target
    const { key, value } = Object.fromEntries(new FormData(form))
    run([...tags.value.filter(([old]) => old !== key), [key, value]]).then(() => form.reset())
  }
  return html`
    <${Problem} error=${tags.error || error} />
    ${!tags.value && tags.loading && html`<${Loading} of="tags" />`}
    ${tags.value && html`
      <ul class="tags">${tags.value.map(([key, value]) => html`<li><b>${shown(key)}</b> ${shown(value)} <${Button} icon="close" kind="quiet" label="Remove ${shown(key)}" disabled=${busy} onClick=${() => run(tags.value.filter(([old]) => old !== key))} /></li>`)}</ul>
      ${tags.value.length === 0 && html`<p class="note">No tags.</p>`}
      <form class="inline" onSubmit=${add}><${Field} label="Key" name="key" required maxlength="128" /><${Field} label="Value" name="value" maxlength="256" />
        <button class="button" disabled=${busy}><span>Set tag</span></button></form>`}`
}

function Versions({ session, bucket, name, onGone }) {
  const list = useLoad(() => session.versions(bucket, name), [session, bucket, name])
  const [removing, setRemoving] = useState(null)
  const remove = async () => {
    const failed = await session.remove(bucket, [{ key: name, version: removing.id }])
    if (failed.length > 0) throw new Error(failed[0].message)
    if (list.value.length === 1) onGone()
    else await list.again()
  }
  return html`
    <${Problem} error=${list.error} />
    ${list.loading && !list.value && html`<${Loading} of="versions" />`}
    ${list.value && html`<table class="small"><thead><tr><th scope="col">Version</th><th scope="col">Size</th><th scope="col">Made</th><th scope="col"><span class="hide">What to do</span></th></tr></thead>
      <tbody>${list.value.map((one) => html`<tr><th scope="row"><code>${one.id.length > 14 ? one.id.slice(0, 12) + '…' : one.id}</code> ${one.latest && html`<span class="badge">latest</span>`} ${one.marker && html`<span class="badge warn">delete marker</span>`}</th>
        <td>${one.marker ? '' : size(one.size)}</td><td>${date(one.modified)}</td>
        <td class="acts">${!one.marker && html`<${Button} icon="download" kind="quiet" label="Download this version" onClick=${() => download(session, bucket, name, one.id)} />`}
          <${Button} icon="trash" kind="quiet" label="Delete this version for good" onClick=${() => setRemoving(one)} /></td></tr>`)}</tbody></table>`}
    ${removing && html`<${Ask} title="Delete this version for good?" verb="Delete" danger onClose=${() => setRemoving(null)} action=${remove}><p><code>${removing.id}</code></p><//>`}`
}

function Lock({ session, bucket, name }) {
  const read = (what) => session.object('GET', bucket, name, { query: [[what, '']] }).then(
    async (answer) => parse(await answer.text()),
    (error) => {
      if (error.status === 404 || error.code === 'InvalidRequest') return null
      throw error
    }
  )
  const lock = useLoad(async () => {
    const conf = await session.document(bucket, 'object-lock')
    if (!conf) return { able: false }
    const [retention, hold] = await Promise.all([read('retention'), read('legal-hold')])
    return { able: true, mode: retention?.get('Mode') || '', until: retention?.get('RetainUntilDate') || '', hold: hold?.get('Status') === 'ON' }
  }, [session, bucket, name])
  const [run, busy, error] = useAction(async ({ mode, until, hold }) => {
    if (until) {
      const text = `<Retention><Mode>${mode}</Mode><RetainUntilDate>${new Date(until).toISOString()}</RetainUntilDate></Retention>`
      await session.send('PUT', pathOf(bucket, name), [['retention', '']], text)
    }
    if ((hold === 'on') !== lock.value.hold) {
      await session.send('PUT', pathOf(bucket, name), [['legal-hold', '']], `<LegalHold><Status>${hold === 'on' ? 'ON' : 'OFF'}</Status></LegalHold>`)
    }
    await lock.again()
    announce('Saved')
  })
  if (!lock.value) return lock.error ? html`<${Problem} error=${lock.error} />` : html`<${Loading} of="the lock" />`
  if (!lock.value.able) return html`<p class="note">This bucket was made without object lock.</p>`
  const submit = (event) => {
    event.preventDefault()
    run(Object.fromEntries(new FormData(event.target)))
  }
  return html`
    <form onSubmit=${submit}>
      <p>${lock.value.until ? `Kept until ${date(lock.value.until)} (${lock.value.mode.toLowerCase()}).` : 'No retention is set.'}</p>
      <${Field} label="Keep until" name="until" type="datetime-local" />
      <${Field} label="Mode" name="mode" value=${lock.value.mode || 'GOVERNANCE'} options=${[['GOVERNANCE', 'Governance: callers with the right to bypass it can end it'], ['COMPLIANCE', 'Compliance: it cannot be ended early']]} />
      <${Check} label="Legal hold" hint="Kept until this is removed" name="hold" checked=${lock.value.hold} />
      <${Problem} error=${error} />
      <footer><button class="button main" disabled=${busy}><span>Save</span></button></footer>
    </form>`
}
