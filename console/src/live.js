// What the server is doing now, from its metrics.
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { carried, gpus, quantile, rate, read, transports } from './metrics.js'
import { count, plural, seconds, shown, size } from './text.js'
import { Button, Loading, Problem } from './ui.js'

const everyMs = 3000
const keptMs = 5 * 60 * 1000
const doors = [['native', 'Native'], ['token', 'S3 by token'], ['http', 'HTTP']]

function useReadings(session) {
  const [state, set] = useState({ list: [] })
  const [paused, setPaused] = useState(false)
  useEffect(() => {
    if (paused) return
    let timer
    let ended = false
    // Bytes by provider since the start, which metrics do not have. This call adds no watcher, so requests cost nothing more.
    const providers = () => session.admin('top', { sums: false }).then((top) => top.doors, () => [])
    const look = async () => {
      if (!document.hidden) {
        try {
          const [text, moved] = await Promise.all([session.call('GET', '/-/metrics').then((answer) => answer.text()), providers()])
          const reading = read(text)
          reading.moved = moved
          if (!ended) set(({ list }) => ({ list: [...list, reading].filter((one) => reading.at - one.at < keptMs) }))
        } catch (error) {
          if (!ended) set(({ list }) => ({ list, error }))
        }
      }
      if (!ended) timer = setTimeout(look, everyMs)
    }
    look()
    return () => {
      ended = true
      clearTimeout(timer)
    }
  }, [session, paused])
  return [state, paused, setPaused]
}

export function Live({ session }) {
  const [{ list, error }, paused, setPaused] = useReadings(session)
  const now = list.at(-1)
  return html`
    <header class="head"><h1>Live</h1><div class="tools"><span class="pulse ${paused || error ? 'off' : ''}">${paused ? 'paused' : error ? 'no answer' : `every ${everyMs / 1000} s`}</span>
      <${Button} onClick=${() => setPaused(!paused)}>${paused ? 'Go on' : 'Pause'}<//></div></header>
    <${Problem} error=${error} />
    ${!now && !error && html`<${Loading} of="metrics" />`}
    ${now && html`<${Doors} list=${list} /><${Providers} list=${list} /><${Gpus} list=${list} /><${Tiles} list=${list} /><${Times} list=${list} /><${Fallbacks} now=${now} /><${Ports} now=${now} /><${Busiest} now=${now} />`}`
}

const before = (list) => list.at(-Math.min(list.length, 6))
const both = (direction) => (reading, door) => reading.sum('verbena_door_bytes_total', { door, ...(direction && { direction }) })

// The share of bytes that RDMA devices moved.
function Doors({ list }) {
  const now = list.at(-1)
  const old = list.length > 1 ? before(list) : null
  const totals = doors.map(([door, name]) => ({ door, name, bytes: both()(now, door) }))
  const sum = totals.reduce((all, one) => all + one.bytes, 0)
  const by = carried(now)
  const share = by.share
  return html`
    <section class="card hero" aria-label="Bytes by door">
      <div><h2>${sum ? html`<b>${share >= 99.95 || share === 0 ? Math.round(share) : share.toFixed(1)} %</b> of all bytes went by RDMA` : 'No object has moved yet'}</h2>
        <p class="hint">since the server started: ${size(sum)} of objects’ bytes${by.ways.map((one, i) => `${i ? ', ' : ': '}${size(one.bytes)} by ${one.name}`).join('')}</p></div>
      <div class="share" role="img" aria-label=${totals.map((one) => `${one.name}: ${size(one.bytes)}`).join(', ')}>
        <svg viewBox="0 0 1000 10" preserveAspectRatio="none">${bars(totals, sum).map((bar) => html`<rect class=${bar.door} x=${bar.x} width=${bar.width} height="10" />`)}</svg></div>
      <table><thead><tr><th scope="col">Door</th><th scope="col">In, now</th><th scope="col">Out, now</th><th scope="col">In all</th><th scope="col">Requests</th><th scope="col"><span class="hide">The last five minutes</span></th></tr></thead>
        <tbody>${doors.map(([door, name]) => html`<tr><th scope="row"><span class="dot ${door}"></span>${name}</th>
          ${['in', 'out'].map((direction) => html`<td>${old ? `${size(rate(old, now, 'verbena_door_bytes_total', { door, direction }))}/s` : '–'}</td>`)}
          <td>${size(both()(now, door))}</td><td>${old ? `${count(rate(old, now, 'verbena_request_duration_seconds_count', { door }))}/s` : '–'}</td>
          <td class="line"><${Line} list=${list} door=${door} /></td></tr>`)}</tbody></table>
    </section>`
}

// Each door's bytes by transport.
function Providers({ list }) {
  const now = list.at(-1)
  const old = list.length > 1 ? before(list) : null
  const rows = now.moved.filter((one) => one.requests > 0)
  if (rows.length === 0) return null
  const same = (one) => old?.moved.find((other) => other.door === one.door && other.provider === one.provider)
  const perSecond = (one, name) => (same(one) ? ((one[name] - same(one)[name]) * 1000) / (now.at - old.at) : NaN)
  const title = Object.fromEntries(doors)
  return html`<section class="card" aria-label="Bytes by provider"><h2>By provider</h2><table><thead><tr><th scope="col">Door</th><th scope="col">Provider</th><th scope="col">Carried by</th><th scope="col" class="much">Requests</th><th scope="col" class="much">In</th><th scope="col" class="much">Out</th><th scope="col" class="much">Requests, now</th><th scope="col" class="much">Bytes, now</th></tr></thead>
    <tbody>${rows.map((one) => html`<tr><th scope="row"><span class="dot ${one.door}"></span>${title[one.door] || one.door}</th><td>${shown(one.provider)}</td><td>${Object.fromEntries(transports)[one.transport] || shown(one.transport || '')}</td><td class="much">${count(one.requests)}</td><td class="much">${size(one.bytes_in)}</td><td class="much">${size(one.bytes_out)}</td>
      <td class="much">${same(one) ? `${count(perSecond(one, 'requests'))}/s` : '–'}</td><td class="much">${same(one) ? `${size(perSecond(one, 'bytes_in') + perSecond(one, 'bytes_out'))}/s` : '–'}</td></tr>`)}</tbody></table></section>`
}

// By the way of bytes to a GPU's memory. The server knows of one; the others are among the providers.
function Gpus({ list }) {
  const gpu = gpus(list.length > 1 ? before(list) : null, list.at(-1))
  if (gpu === null) return null
  const now = (value, shows) => (gpu.rates ? `${shows(value(gpu.rates))}/s` : '–')
  return html`<section class="card" aria-label="Memory of GPUs"><h2>Memory of GPUs</h2><table><thead><tr><th scope="col">Way</th><th scope="col" class="much">To GPUs</th><th scope="col" class="much">From GPUs</th><th scope="col" class="much">Copies</th><th scope="col" class="much">Failed</th><th scope="col" class="much">To GPUs, now</th><th scope="col" class="much">From GPUs, now</th><th scope="col" class="much">Copies, now</th></tr></thead>
    <tbody><tr><th scope="row">direct</th><td class="much">${size(gpu.toDevice)}</td><td class="much">${size(gpu.fromDevice)}</td><td class="much">${count(gpu.copies)}</td><td class="much">${count(gpu.failed)}</td>
      <td class="much">${now((rates) => rates.toDevice, size)}</td><td class="much">${now((rates) => rates.fromDevice, size)}</td><td class="much">${now((rates) => rates.copies, count)}</td></tr></tbody></table>
    <p class="hint">${plural(gpu.devices, 'GPU')}, ${count(gpu.lost)} of them lost (${plural(gpu.losses, 'time')} so far); ${size(gpu.mapped)} of clients’ memory is mapped${gpu.aside > 0 ? `; ${size(gpu.aside)} of the arena are set aside` : ''}. What goes the ways peer, shared and staged is counted as that of RDMA devices, shared memory and connections: where it ends, clients alone know and count.</p></section>`
}

function bars(totals, sum) {
  let x = 0
  return totals.map(({ door, bytes }) => {
    const width = sum ? (bytes / sum) * 1000 : 0
    x += width
    return { door, x: x - width, width }
  })
}

function Line({ list, door }) {
  const rates = list.slice(1).map((reading, i) => rate(list[i], reading, 'verbena_door_bytes_total', { door }))
  const most = Math.max(1, ...rates)
  const step = 120 / Math.max(1, Math.floor(keptMs / everyMs) - 1)
  const points = rates.map((value, i) => `${(120 - (rates.length - 1 - i) * step).toFixed(1)},${(22 - (value / most) * 20).toFixed(1)}`)
  return html`<svg class="spark ${door}" viewBox="0 0 120 24" aria-hidden="true">${points.length > 1 && html`<polyline points=${points.join(' ')} />`}</svg>`
}

const Tile = ({ name, value, more, bad }) => html`<div class="tile ${bad ? 'bad' : ''}"><dt>${name}</dt><dd>${value}<small>${more}</small></dd></div>`

function Tiles({ list }) {
  const now = list.at(-1)
  const old = list.length > 1 ? before(list) : null
  const one = (name, where) => now.sum(name, where)
  const hits = one('verbena_cache_hits_total')
  const looks = hits + one('verbena_cache_misses_total')
  const disk = one('verbena_store_size_bytes')
  const free = one('verbena_store_free_bytes')
  const errors = now.all('verbena_http_requests_total', { status: '5xx' }).reduce((sum, sample) => sum + sample.value, 0)
  const damaged = one('verbena_store_corrupt_reads_total') + one('verbena_scrub_damaged_blocks_total') + one('verbena_sealed_corrupt_reads_total')
  const refusals = one('verbena_memory_refusals_total')
  return html`
    <dl class="tiles">
      <${Tile} name="Requests" value=${old ? `${count(rate(old, now, 'verbena_request_duration_seconds_count'))}/s` : '–'} more="${count(one('verbena_request_duration_seconds_count'))} in all" />
      <${Tile} name="Native sessions" value=${count(one('verbena_native_sessions'))} more="${count(one('verbena_native_sessions_made_total'))} made" />
      <${Tile} name="HTTP connections" value=${count(one('verbena_http_connections'))} more="${count(one('verbena_http_connections_refused_total'))} refused" bad=${one('verbena_http_connections_refused_total') > 0} />
      <${Tile} name="Arena in use" value=${size(one('verbena_memory_leased_bytes'))} more="${count(one('verbena_memory_waiting'))} wait, ${count(refusals)} refused" bad=${refusals > 0} />
      <${Tile} name="Hot tier" value=${looks ? `${((hits / looks) * 100).toFixed(1)} %` : '–'} more="hits; ${count(one('verbena_cache_entries'))} objects, ${size(one('verbena_cache_bytes'))}" />
      ${disk > 0 && html`<${Tile} name="Disk free" value="${((free / disk) * 100).toFixed(0)} %" more="${size(free)} of ${size(disk)}" bad=${free / disk < 0.1} />`}
      <${Tile} name="Errors (5xx)" value=${count(errors)} more="since the start" bad=${errors > 0} />
      <${Tile} name="Scrub" value=${damaged ? `${count(damaged)} damaged` : 'no damage'} more="${size(one('verbena_scrub_bytes_total'))} read, ${count(one('verbena_scrub_rounds_total'))} rounds" bad=${damaged > 0} />
    </dl>`
}

// From the last readings if they have requests, else since the start.
function Times({ list }) {
  const now = list.at(-1)
  const old = list.length > 1 ? list[0] : null
  const name = 'verbena_request_duration_seconds'
  const rows = doors.flatMap(([door, title]) => now.by(`${name}_count`, 'verb', { door }).filter(([, n]) => n > 0).map(([verb, n]) => ({ door, title, verb, n })))
  if (rows.length === 0) return null
  const q = (row, at) => {
    const where = { door: row.door, verb: row.verb }
    const lately = quantile(old, now, name, where, at)
    return seconds(Number.isNaN(lately) ? quantile(null, now, name, where, at) : lately)
  }
  return html`
    <section class="card" aria-label="How long requests take"><h2>How long requests take</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="Table of durations"><table><thead><tr><th scope="col">Door</th><th scope="col">Verb</th><th scope="col" class="much">Requests</th><th scope="col" class="much">Median</th><th scope="col" class="much">95 %</th><th scope="col" class="much">99 %</th></tr></thead>
        <tbody>${rows.map((row) => html`<tr><th scope="row"><span class="dot ${row.door}"></span>${row.title}</th><td>${row.verb.replace('_', ' ')}</td><td class="much">${count(row.n)}</td>${[0.5, 0.95, 0.99].map((at) => html`<td class="much">${q(row, at)}</td>`)}</tr>`)}</tbody></table></div>
      <p class="hint">From the request’s head or message to the end of its answer, over the last minutes, or since the start if there were no requests in them.</p>
    </section>`
}

const reasons = {
  third_party: 'the token names an address that is not the caller’s: rdma.token_networks',
  own_address: 'the token names the server itself'
}

function Fallbacks({ now }) {
  const rows = [
    ['Declined', 'tokens that no device here serves', now.sum('verbena_token_declines_total')],
    ['Fell back to HTTP', 'GETs whose transfer broke or was not possible', now.sum('verbena_token_fallbacks_total')],
    ['Failed', 'PUTs whose transfer broke', now.sum('verbena_token_failures_total')],
    ...now.by('verbena_rdma_tokens_refused_total', 'reason').map(([reason, n]) => [`Refused: ${reason.replaceAll('_', ' ')}`, reasons[reason] || '', n]),
    ...now.by('verbena_native_sessions_over_limit_total', 'limit').map(([limit, n]) => [`Sessions refused: ${limit}`, 'over a limit', n]),
    ...now.by('verbena_native_dropped_total', 'reason').map(([reason, n]) => [`Messages dropped: ${reason.replaceAll('_', ' ')}`, '', n])
  ].filter(([, , n], i) => i < 3 || n > 0)
  const quiet = rows.every(([, , n]) => n === 0)
  return html`<section class="card" aria-label="What fell back"><h2>Declined, fallen back or refused, and why</h2>
    ${quiet ? html`<p class="note">Nothing: no token was declined, nothing fell back or failed.</p>`
      : html`<table><thead><tr><th scope="col">What</th><th scope="col">Why</th><th scope="col" class="much">How often</th></tr></thead><tbody>${rows.map(([what, why, n]) => html`<tr><th scope="row">${what}</th><td>${why}</td><td class="much">${count(n)}</td></tr>`)}</tbody></table>`}
  </section>`
}

// The port counters that indicate a problem, by their kernel names.
const wrong = /err|discard|drop|retry|timeout|exceeded|nak|out_of|downed|recover/

function Ports({ now }) {
  const ports = now.all('verbena_rdma_port_active')
  if (ports.length === 0) return null
  const counters = ({ labels }) => now.all('verbena_rdma_port_counter_total', { device: labels.device, port: labels.port })
  const words = (port, name) => (counters(port).find((one) => one.labels.counter === name)?.value || 0) * 4 // they are counted in words of 4 bytes
  const troubles = (port) => counters(port).filter((one) => one.value > 0 && wrong.test(one.labels.counter))
  return html`<section class="card" aria-label="RDMA ports"><h2>RDMA ports</h2><table><thead><tr><th scope="col">Device</th><th scope="col">Port</th><th scope="col">State</th><th scope="col" class="much">Received</th><th scope="col" class="much">Sent</th><th scope="col">Problems</th></tr></thead>
    <tbody>${ports.map((port) => html`<tr><th scope="row">${shown(port.labels.device)}</th><td>${shown(port.labels.port)}</td><td>${port.value === 1 ? 'active' : html`<a href="#/server">not active: see the doctor’s findings</a>`}</td>
      <td class="much">${size(words(port, 'port_rcv_data'))}</td><td class="much">${size(words(port, 'port_xmit_data'))}</td>
      <td>${troubles(port).length === 0 ? 'nothing' : troubles(port).map((one) => `${shown(one.labels.counter)} ${count(one.value)}`).join(', ')}</td></tr>`)}</tbody></table></section>`
}

function Busiest({ now }) {
  const rows = now.by('verbena_bucket_bytes_total', 'bucket').slice(0, 10)
  if (rows.length === 0) return null
  return html`<section class="card" aria-label="Busiest buckets"><h2>Busiest buckets</h2><table><thead><tr><th scope="col">Bucket</th><th scope="col" class="much">In</th><th scope="col" class="much">Out</th><th scope="col" class="much">Requests</th></tr></thead>
    <tbody>${rows.map(([bucket]) => html`<tr><th scope="row"><a href="#/buckets/${bucket}">${bucket}</a></th><td class="much">${size(now.sum('verbena_bucket_bytes_total', { bucket, direction: 'in' }))}</td>
      <td class="much">${size(now.sum('verbena_bucket_bytes_total', { bucket, direction: 'out' }))}</td><td class="much">${count(now.sum('verbena_bucket_requests_total', { bucket }))}</td></tr>`)}</tbody></table></section>`
}
