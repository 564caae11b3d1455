// Targets of bucket notifications: the queue of each, the events that it does not accept, and dropping them.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { count, date, plural, shown, size } from './text.js'
import { Ask, Button, Empty, Loading, Problem, announce, useLoad } from './ui.js'

const stateOf = (one) => !one.configured ? 'no longer configured' : one.up ? 'takes events' : 'fails, tried again'

export function Events({ session }) {
  const load = useLoad(async () => (await session.admin('events')).targets, [session])
  const [dropping, setDropping] = useState(null)
  const drop = async () => {
    let all = 0
    for (let left = 1; left > 0;) {
      const said = await session.admin('events-drop', { target: dropping.name })
      all += said.events
      left = said.left
      if (left > 0 && said.events === 0) throw new Error(`${plural(all, 'event')} dropped; ${count(left)} are left.`)
    }
    announce(`${plural(all, 'event')} for ${dropping.name} dropped`)
    await load.again()
  }
  const mayDrop = (one) => !one.configured && session.may.has('events-drop')
  const stuck = load.value?.flatMap((target) => target.stuck.map((one) => ({ ...one, target: target.name }))) || []
  return html`
    <div class="bar"><p class="note">Where bucket notifications go, and what waits for each target.</p><div class="tools"><${Button} icon="again" label="Load again" kind="quiet" onClick=${load.again} /></div></div>
    <${Problem} error=${load.error} />
    ${!load.value && !load.error && html`<${Loading} of="targets" />`}
    ${load.value?.length === 0 && html`<${Empty} icon="link" title="No targets"><code>events.targets</code> in the server’s configuration names them.<//>`}
    ${load.value?.length > 0 && html`<div class="table"><table><thead><tr><th scope="col">Target</th><th scope="col">Type</th><th scope="col">State</th><th scope="col" class="much">Waiting</th><th scope="col" class="much">Bytes</th><th scope="col" class="much">Buckets</th><th scope="col" class="much">Delivered</th><th scope="col"><span class="hide">What to do</span></th></tr></thead>
      <tbody>${load.value.map((one) => html`<tr key=${one.name}><th scope="row">${shown(one.name)}</th><td>${one.type}</td><td>${stateOf(one)}</td><td class="much">${count(one.queued)}</td><td class="much">${size(one.queued_bytes)}</td><td class="much">${count(one.queued_buckets)}</td><td class="much">${count(one.delivered)}</td>
        <td class="acts">${mayDrop(one) && html`<${Button} icon="trash" kind="quiet" label="Drop what waits for ${one.name}" onClick=${() => setDropping(one)} />`}</td></tr>`)}</tbody></table></div>`}
    ${stuck.length > 0 && html`<${Stuck} session=${session} stuck=${stuck} again=${load.again} />`}
    ${dropping && html`<${Ask} title="Drop ${plural(dropping.queued, 'event')}?" verb="Drop" danger onClose=${() => setDropping(null)} action=${drop}><p>They wait for <b>${shown(dropping.name)}</b>, which is not in <code>events.targets</code> any more. They will never be delivered. To deliver them, add the target to the configuration again instead.</p><//>`}`
}

function Stuck({ session, stuck, again }) {
  const [asking, setAsking] = useState(null)
  const skip = async () => {
    await session.admin('events-skip', { target: asking.target, event: asking.event })
    announce(`Event ${asking.event} is dropped`)
    await again()
  }
  return html`
    <h2>Not taken</h2><p class="note">Each holds up later events of its bucket for this target.</p>
    <div class="table"><table aria-label="Events that are not taken"><thead><tr><th scope="col">Event</th><th scope="col">Target</th><th scope="col">What</th><th scope="col">Why</th><th scope="col" class="much">Tries</th><th scope="col" class="when">Since</th><th scope="col"><span class="hide">What to do</span></th></tr></thead>
      <tbody>${stuck.map((one) => html`<tr key=${one.target + one.event}><th scope="row"><code>${one.event}</code></th><td>${shown(one.target)}</td><td>${one.happened} ${shown(one.key ? `${one.bucket}/${one.key}` : one.bucket)}</td><td>${one.refused ? 'refused' : 'no answer'}: ${shown(one.why)}</td><td class="much">${count(one.tries)}</td><td class="when">${date(one.since)}</td>
        <td class="acts">${session.may.has('events-skip') && html`<${Button} icon="trash" kind="quiet" label="Drop event ${one.event}" onClick=${() => setAsking(one)} />`}</td></tr>`)}</tbody></table></div>
    ${asking && html`<${Ask} title="Drop this event?" verb="Drop" danger onClose=${() => setAsking(null)} action=${skip}><p><b>${shown(asking.target)}</b> will never get it, and later events are delivered. The server’s log keeps a copy.</p><//>`}`
}
