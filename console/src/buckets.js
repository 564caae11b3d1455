import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { date } from './text.js'
import { Ask, Button, Check, Empty, Field, Icon, Loading, Problem, announce, useLoad } from './ui.js'

export function Buckets({ session }) {
  const { value: buckets, error, loading, again } = useLoad(() => session.buckets(), [session])
  const [filter, setFilter] = useState('')
  const [making, setMaking] = useState(false)
  const seen = (buckets || []).filter((one) => one.name.includes(filter.toLowerCase()))
  return html`
    <header class="head"><h1>Buckets</h1>
      <div class="tools">
        <label class="search"><${Icon} name="search" /><input type="search" aria-label="Search buckets" placeholder="Search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
        <${Button} icon="again" label="Load again" kind="quiet" onClick=${again} />
        <${Button} icon="plus" kind="main" onClick=${() => setMaking(true)}>New bucket<//>
      </div></header>
    <${Problem} error=${error} />
    ${!buckets && loading && html`<${Loading} of="buckets" />`}
    ${buckets && buckets.length === 0 && html`<${Empty} icon="bucket" title="No bucket yet">A bucket holds objects. Make the first one.<//>`}
    ${seen.length > 0 && html`<div class="table"><table>
      <thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col" class="when">Made</th></tr></thead>
      <tbody>${seen.map((one) => html`<tr key=${one.name}><th scope="row"><a class="name" href="#/buckets/${one.name}"><${Icon} name="bucket" />${one.name}</a></th>
        <td>${one.type}</td><td class="when">${date(one.created)}</td></tr>`)}</tbody></table></div>`}
    ${buckets?.length > 0 && seen.length === 0 && html`<p class="note">No bucket has “${filter}” in its name.</p>`}
    ${making && html`<${NewBucket} session=${session} onClose=${() => setMaking(false)} onMade=${again} />`}`
}

function NewBucket({ session, onClose, onMade }) {
  const [kind, setKind] = useState('general')
  const make = async ({ name, durability, lock, zone }) => {
    const whole = kind === 'directory' ? `${name}--${zone}--x-s3` : name
    await session.makeBucket(whole, { durability, lock: lock === 'on', zone })
    announce(`Bucket ${whole} is made`)
    onMade()
  }
  return html`
    <${Ask} title="New bucket" verb="Make bucket" onClose=${onClose} action=${make}>
      <${Field} label="Name" name="name" required maxlength="63" autofocus hint="3 to 63 lower-case letters, digits, hyphens and periods" />
      <${Field} label="Kind" value=${kind} onChange=${(event) => setKind(event.target.value)} options=${[['general', 'General purpose'], ['directory', 'Directory (S3 Express): append and rename']]} />
      ${kind === 'directory' && html`<${Field} label="Zone" name="zone" value="local1-az1" required hint="The name becomes NAME--ZONE--x-s3" />`}
      <${Field} label="Durability" name="durability" options=${[['sync', 'sync: acknowledged when it is on disk'], ['memory', 'memory: acknowledged at once, on disk a moment later']]}
        hint="memory may lose the last 100 ms at a power loss" />
      ${kind === 'general' && html`<${Check} label="Object lock" hint="Protects versions against removal; only possible from the start" name="lock" />`}
    <//>`
}
