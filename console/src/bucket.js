import { html } from 'htm/preact'
import { pathOf } from './api.js'
import { Objects } from './objects.js'
import { Settings } from './settings.js'
import { Tabs, useLoad } from './ui.js'

export function Bucket({ session, uploads, name, tab, prefix }) {
  const head = useLoad(() => session.call('HEAD', pathOf(name)).then((answer) => ({
    durability: answer.headers.get('x-verbena-durability'), directory: name.endsWith('--x-s3')
  })), [session, name])
  const go = (to) => { location.hash = `#/buckets/${encodeURIComponent(name)}${to === 'objects' ? '' : '/' + to}` }
  return html`
    <nav class="crumbs" aria-label="Where you are"><a href="#/buckets">Buckets</a></nav>
    <header class="head"><h1>${name}</h1>${head.value && html`<span class="badge">${head.value.directory ? 'directory' : head.value.durability}</span>`}</header>
    <${Tabs} label="Parts of the bucket" tabs=${[['objects', 'Objects'], ['settings', 'Settings']]} now=${tab} onChange=${go} />
    ${tab === 'settings'
      ? html`<${Settings} session=${session} name=${name} head=${head} />`
      : html`<${Objects} key=${prefix} session=${session} uploads=${uploads} bucket=${name} prefix=${prefix} />`}`
}
