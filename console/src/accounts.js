// Accounts, the owners of buckets; for the server's root.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { NewKey } from './rights.js'
import { count, date, shown } from './text.js'
import { Ask, Button, Field, Icon, Loading, Problem, announce, useLoad } from './ui.js'

export function Accounts({ session }) {
  const list = useLoad(async () => (await session.admin('user-list')).accounts, [session])
  const [asking, setAsking] = useState(null)
  const [made, setMade] = useState(null)
  const make = async ({ name, email }) => {
    const key = await session.admin('user-add', { name, ...(email ? { email } : {}) })
    setMade({ id: key.access_key, secret: key.secret_key })
    await list.again()
  }
  const remove = async () => {
    await session.admin('user-rm', { name: asking.name })
    announce(`Account ${asking.name} is deleted`)
    await list.again()
  }
  return html`
    <div class="bar"><p class="note">An account owns buckets; its root may do everything within it.</p>
      <div class="tools"><${Button} icon="again" label="Load again" kind="quiet" onClick=${list.again} /><${Button} icon="plus" kind="main" onClick=${() => setAsking({})}>New account<//></div></div>
    <${Problem} error=${list.error} />
    ${list.loading && !list.value && html`<${Loading} of="accounts" />`}
    ${list.value && html`<div class="table"><table><thead><tr><th scope="col">Name</th><th scope="col">Account</th><th scope="col" class="much">Users</th><th scope="col" class="when">Made</th><th scope="col"><span class="hide">What to do</span></th></tr></thead>
      <tbody>${list.value.map((one) => html`<tr key=${one.account_id}><th scope="row"><span class="name"><${Icon} name="people" />${shown(one.name)}</span></th><td><code>${one.account_id}</code></td><td class="much">${count(one.users.length)}</td><td class="when">${date(one.created)}</td>
        <td class="acts">${one.account_id !== '000000000000' && html`<${Button} icon="trash" kind="quiet" label="Delete account ${shown(one.name)}" onClick=${() => setAsking(one)} />`}</td></tr>`)}</tbody></table></div>`}
    ${asking && !asking.name && html`<${Ask} title="New account" verb="Make account" onClose=${() => setAsking(null)} action=${make}>
      <${Field} label="Name" name="name" required maxlength="64" autofocus /><${Field} label="Email address (optional)" name="email" type="email" maxlength="254" /><//>`}
    ${asking?.name && html`<${Ask} title="Delete account ${asking.name}?" verb="Delete" danger onClose=${() => setAsking(null)} action=${remove}><p>Its users, groups, roles and keys go with it. An account that owns buckets cannot be deleted.</p><//>`}
    ${made && html`<${NewKey} id=${made.id} secret=${made.secret} onClose=${() => setMade(null)} />`}`
}
