// The running server, as `verbena admin` shows it in a terminal; for the root and for keys with these rights.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { Audit } from './audit.js'
import { Doctor } from './doctor.js'
import { Events } from './events.js'
import { read } from './metrics.js'
import { serverTabs } from './operate.js'
import { count, date, plural, shown, size } from './text.js'
import { Ask, Button, Empty, Field, Loading, Problem, Tabs, announce, useLoad } from './ui.js'

export function Server({ session, tab }) {
  const tabs = serverTabs(session.may)
  const known = tabs.some(([id]) => id === tab) ? tab : tabs[0][0]
  const Part = { about: About, sessions: Sessions, events: Events, upkeep: Upkeep, audit: Audit, log: Log }[known]
  return html`
    <header class="head"><h1>Server</h1></header>
    <${Tabs} label="Parts of the server" tabs=${tabs} now=${known} onChange=${(to) => { location.hash = `#/server/${to}` }} />
    <${Part} key=${known} session=${session} />`
}

const again = (load) => html`<${Button} icon="again" label="Load again" kind="quiet" onClick=${load.again} />`

function lasted(seconds) {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60]
  if (days) return `${plural(days, 'day')}, ${plural(hours, 'hour')}`
  return hours ? `${plural(hours, 'hour')}, ${plural(minutes, 'minute')}` : `${plural(minutes, 'minute')}`
}

function facts(info) {
  const disk = info.disk?.path ? `${info.disk.path}: ${size(info.disk.free_bytes)} free of ${size(info.disk.size_bytes)}` : 'none: everything is in memory'
  const stored = info.objects === undefined ? '' : `; ${plural(info.objects, 'object')}, ${size(info.bytes)}${info.counted ? '' : ', still being counted'}`
  return [
    ['Version', `${info.version}, process ${info.pid}`],
    ['Up', `${lasted(info.uptime_s)}, since ${date(info.started)}`],
    ['Engine', `${info.engine}, ${plural(info.cores, 'core')}, disk by ${info.disk_io}`],
    ['Disk', disk],
    ['Buckets', `${count(info.buckets)} (${count(info.durability.sync)} sync, ${count(info.durability.memory)} memory)${stored}`],
    ['Arena', `${size(info.arena.leased_bytes)} in use of ${size(info.arena.bytes)}${info.arena.huge_pages ? ', huge pages' : ''}`]
  ]
}

function About({ session }) {
  const load = useLoad(async () => (session.may.has('info') ? session.admin('info') : null), [session])
  const info = load.value
  return html`
    <div class="bar"><p class="note">Its version, addresses and resources, and what differs from the configuration.</p><div class="tools">${again(load)}</div></div>
    <${Problem} error=${load.error} />
    ${load.loading && !info && html`<${Loading} of="the server" />`}
    <div class="cards">${info && html`
      <section class="card"><h2>What it is</h2><table><tbody>${facts(info).map(([name, text]) => html`<tr><th scope="row">${name}</th><td>${shown(text)}</td></tr>`)}</tbody></table></section>
      <section class="card"><h2>Doors</h2><table><tbody>${info.doors.map((door) => html`<tr><th scope="row">${door.door}</th><td>${door.address ? html`<code>${door.address}</code>` : 'off'}</td><td>${(door.providers || []).join(', ')}</td></tr>`)}</tbody></table></section>
      <section class="card wide"><h2>Differs from the configuration</h2>
        ${info.fallbacks.length === 0 ? html`<p class="note">Nothing.</p>` : html`<ul>${info.fallbacks.map((one) => html`<li>${shown(one)}</li>`)}</ul>`}</section>
    `}
      ${session.may.has('doctor') && html`<${Doctor} session=${session} />`}
      ${info?.refusals.length > 0 && html`<section class="card wide"><h2>Refused since the start</h2><table><tbody>${info.refusals.map((one) => html`<tr><th scope="row">${shown(one.what)}</th><td>${shown(one.reason || '')}</td><td class="much">${count(one.count)}</td></tr>`)}</tbody></table></section>`}
    </div>`
}

const nameOf = (arn) => arn.slice(arn.lastIndexOf(':') + 1)

function Sessions({ session }) {
  const load = useLoad(() => session.admin('sessions'), [session])
  const [asking, setAsking] = useState(null)
  const end = async () => {
    await session.admin('session-end', { id: asking.id })
    announce(`Session ${asking.id} is ended`)
    await load.again()
  }
  const list = load.value?.sessions
  return html`
    <div class="bar"><p class="note">Clients with an open native session, over RDMA devices, shared memory or TCP.</p><div class="tools">${again(load)}</div></div>
    <${Problem} error=${load.error} />
    ${!list && !load.error && html`<${Loading} of="sessions" />`}
    ${list?.length === 0 && html`<${Empty} icon="pulse" title="No native session">Clients that come over HTTP have none.<//>`}
    ${list?.length > 0 && html`<div class="table"><table><thead><tr><th scope="col">Who</th><th scope="col">From</th><th scope="col">Provider</th><th scope="col" class="much">Requests</th><th scope="col" class="much">In</th><th scope="col" class="much">Out</th><th scope="col" class="much">Windows</th><th scope="col" class="when">Since</th><th scope="col" class="much">Idle</th><th scope="col"><span class="hide">What to do</span></th></tr></thead>
      <tbody>${list.map((one) => html`<tr key=${one.id}><th scope="row">${shown(`${one.account} ${nameOf(one.principal)}`)}</th><td>${shown(one.peer)}</td><td>${shown(one.providers)}</td><td class="much">${count(one.requests)}</td><td class="much">${size(one.bytes_in)}</td><td class="much">${size(one.bytes_out)}</td>
        <td class="much">${count(one.windows)}</td><td class="when">${date(one.opened)}</td><td class="much">${count(one.idle_s)} s</td><td class="acts">${session.may.has('session-end') && html`<${Button} icon="close" kind="quiet" label="End session ${one.id}" onClick=${() => setAsking(one)} />`}</td></tr>`)}</tbody></table></div>
      ${load.value.total > list.length && html`<p class="hint">and ${count(load.value.total - list.length)} more that were used longer ago</p>`}`}
    ${asking && html`<${Ask} title="End this session?" verb="End session" danger onClose=${() => setAsking(null)} action=${end}><p>Requests in progress are finished. The client is informed, and may open another session.</p><//>`}`
}

// Background work of the server.
function Upkeep({ session }) {
  const load = useLoad(async () => read(await (await session.call('GET', '/-/metrics')).text()), [session])
  const now = load.value
  const rows = (list) => html`<table><tbody>${list.map(([name, text, bad]) => html`<tr><th scope="row">${name}</th><td>${text}${bad ? html` <span class="badge warn">look</span>` : ''}</td></tr>`)}</tbody></table>`
  const trouble = (name) => [count(now.sum(name)), now.sum(name) > 0]
  const last = now?.sum('verbena_scrub_last_round_seconds')
  return html`
    <div class="bar"><p class="note">Background work of the server since its start.</p><div class="tools">${again(load)}</div></div>
    <${Problem} error=${load.error} />
    ${!now && !load.error && html`<${Loading} of="the numbers" />`}
    ${now && html`<div class="cards">
      <section class="card"><h2>Scrub</h2><p class="hint">Reads everything that is stored, over and over, to find damaged data.</p>${now.has('verbena_scrub_bytes_total')
        ? rows([['Read', size(now.sum('verbena_scrub_bytes_total'))], ['Rounds', count(now.sum('verbena_scrub_rounds_total'))], ['Last round ended', last ? date(new Date(last * 1000).toISOString()) : 'none yet'],
          ['Damaged blocks', ...trouble('verbena_scrub_damaged_blocks_total')], ['Unreadable blocks', ...trouble('verbena_scrub_unreadable_blocks_total')], ['Reads that found damage', ...trouble('verbena_store_corrupt_reads_total')]])
        : html`<p class="note">This engine has none.</p>`}</section>
      <section class="card"><h2>Lifecycle</h2><p class="hint">Applies the rules of all buckets.</p>${rows([['Versions removed', count(now.sum('verbena_lifecycle_removals_total'))],
        ['Uploads aborted', count(now.sum('verbena_lifecycle_aborts_total'))], ['Refused (locked versions)', count(now.sum('verbena_lifecycle_refusals_total'))]])}</section>
    </div>`}`
}

const levels = [['trace', 'all'], ['info', 'info and above'], ['warn', 'warnings and errors'], ['error', 'errors']]

function Log({ session }) {
  const [level, setLevel] = useState('info')
  const [wanted, setWanted] = useState('')
  const load = useLoad(async () => (await session.admin('logs', { level, lines: 500 })).lines, [session, level])
  const lines = load.value?.filter((line) => line.text.toLowerCase().includes(wanted.toLowerCase()))
  return html`
    <div class="bar"><div class="tools"><${Field} label="Lines" value=${level} options=${levels} onChange=${(event) => setLevel(event.target.value)} />
      <${Field} label="That say" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></div><div class="tools">${again(load)}</div></div>
    <${Problem} error=${load.error} />
    ${!lines && !load.error && html`<${Loading} of="the log" />`}
    ${lines?.length === 0 && html`<p class="note">No such line.</p>`}
    ${lines?.length > 0 && html`<div class="table"><table class="small"><thead><tr><th scope="col">Time</th><th scope="col">Level</th><th scope="col">What</th></tr></thead>
      <tbody>${[...lines].reverse().map((line) => html`<tr key=${line.number}><td>${line.time.replace('T', ' ').replace(/\..*/, '')}</td><td>${line.level}</td><td><code>${shown(line.text)}</code></td></tr>`)}</tbody></table></div>
      <p class="hint">Newest first, the last 500 of this kind. The whole log is the server’s standard error.</p>`}`
}
