// The findings of `verbena doctor` about the server's machine, with the commands that help.
import { html } from 'htm/preact'
import { shown } from './text.js'
import { Copy, Loading, Problem, useLoad } from './ui.js'

const words = { ok: 'sound', warn: 'look', fail: 'fails' }

export function Doctor({ session }) {
  const load = useLoad(async () => (await session.admin('doctor')).findings, [session])
  const order = { fail: 0, warn: 1, ok: 2 }
  const list = load.value && [...load.value].sort((a, b) => order[a.health] - order[b.health])
  return html`
    <section class="card wide" aria-label="Findings of the doctor"><h2>Findings of <code>verbena doctor</code> here</h2>
      <${Problem} error=${load.error} />
      ${!list && !load.error && html`<${Loading} of="the checks" />`}
      ${list && html`<table class="doctor"><thead><tr><th scope="col">State</th><th scope="col">Subject</th><th scope="col">Found, and what helps</th></tr></thead>
        <tbody>${list.map((one) => html`<tr><td><span class="badge ${one.health === 'ok' ? '' : 'warn'}">${words[one.health] || one.health}</span></td><th scope="row">${shown(one.subject)}</th>
          <td>${shown(one.found)}${one.mend && html`<p class="hint">${shown(one.mend)}</p>`}${one.command && html`<div class="secret"><code>${shown(one.command)}</code><${Copy} text=${one.command} /></div>`}</td></tr>`)}</tbody></table>`}
    </section>`
}
