// Keys, memberships and policies of a user, group or role.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { Editor } from './editor.js'
import { indented } from './json.js'
import { date, shown } from './text.js'
import { Button, Dialog, Loading, Problem, Secret, announce, useAction, useLoad } from './ui.js'

export function Keys({ session, user }) {
  const keys = useLoad(async () => (await session.iamList('ListAccessKeys', { UserName: user }, 'AccessKeyMetadata')).map((one) => ({
    id: one.get('AccessKeyId'), active: one.get('Status') === 'Active', made: one.get('CreateDate')
  })), [session, user])
  const [made, setMade] = useState(null)
  const [run, busy, error] = useAction(async (action, parameters) => {
    const answer = await session.iam('iam', action, { UserName: user, ...parameters })
    if (action === 'CreateAccessKey') {
      const key = answer.at('CreateAccessKeyResult', 'AccessKey')
      setMade({ id: key.get('AccessKeyId'), secret: key.get('SecretAccessKey') })
    }
    await keys.again()
    announce('Done')
  })
  return html`
    <section><h3>Access keys</h3>
      <${Problem} error=${keys.error || error} />
      ${!keys.value && keys.loading && html`<${Loading} of="keys" />`}
      ${keys.value?.length === 0 && html`<p class="note">No key.</p>`}
      ${keys.value?.length > 0 && html`<ul class="lines">${keys.value.map((key) => html`<li><code>${key.id}</code><span class="badge ${key.active ? '' : 'warn'}">${key.active ? 'on' : 'off'}</span><small>${date(key.made)}</small>
        <${Button} kind="quiet" disabled=${busy} onClick=${() => run('UpdateAccessKey', { AccessKeyId: key.id, Status: key.active ? 'Inactive' : 'Active' })}>${key.active ? 'Turn off' : 'Turn on'}<//>
        <${Button} kind="quiet" icon="trash" label="Delete key ${key.id}" disabled=${busy} onClick=${() => run('DeleteAccessKey', { AccessKeyId: key.id })} /></li>`)}</ul>`}
      <${Button} icon="plus" disabled=${busy} onClick=${() => run('CreateAccessKey')}>New key<//>
    </section>
    ${made && html`<${NewKey} id=${made.id} secret=${made.secret} onClose=${() => setMade(null)} />`}`
}

export const NewKey = ({ id, secret, token, until, onClose }) => html`
  <${Dialog} title=${token ? 'Temporary credentials' : 'New access key'} onClose=${onClose}>
    <p>Shown once. ${until ? `They end at ${date(until)}.` : 'Together they give all rights of their owner.'}</p>
    <${Secret} label="Access key" text=${id} /><${Secret} label="Secret key" text=${secret} />${token && html`<${Secret} label="Session token" text=${token} />`}
  <//>`

// The groups of a user, or the users of a group.
export function Members({ session, user, group }) {
  const list = useLoad(async () => {
    if (user) {
      const [of, all] = await Promise.all([session.iamList('ListGroupsForUser', { UserName: user }, 'Groups'), session.iamList('ListGroups', {}, 'Groups')])
      return { of: of.map((one) => one.get('GroupName')), all: all.map((one) => one.get('GroupName')) }
    }
    const [of, all] = await Promise.all([session.iamList('GetGroup', { GroupName: group }, 'Users'), session.iamList('ListUsers', {}, 'Users')])
    return { of: of.map((one) => one.get('UserName')), all: all.map((one) => one.get('UserName')) }
  }, [session, user, group])
  const [run, busy, error] = useAction(async (action, other) => {
    await session.iam('iam', action, user ? { UserName: user, GroupName: other } : { UserName: other, GroupName: group })
    await list.again()
    announce('Done')
  })
  return html`
    <section><h3>${user ? 'Groups' : 'Members'}</h3>
      <${Problem} error=${list.error || error} />
      ${list.value && html`<${Chosen} of=${list.value.of} all=${list.value.all} none=${user ? 'In no group.' : 'No members.'} what=${user ? 'group' : 'user'} busy=${busy}
        onAdd=${(other) => run('AddUserToGroup', other)} onRemove=${(other) => run('RemoveUserFromGroup', other)} />`}
    </section>`
}

function Chosen({ of, all, none, what, busy, onAdd, onRemove, text = shown }) {
  const rest = all.filter((one) => !of.includes(one))
  const add = (event) => {
    event.preventDefault()
    onAdd(new FormData(event.target).get('one'))
  }
  return html`
    ${of.length === 0 ? html`<p class="note">${none}</p>` : html`<ul class="tags">${of.map((one) => html`<li>${text(one)} <${Button} icon="close" kind="quiet" label="Take away ${text(one)}" disabled=${busy} onClick=${() => onRemove(one)} /></li>`)}</ul>`}
    ${rest.length > 0 && html`<form class="inline" onSubmit=${add}><select name="one" aria-label="A ${what} to add">${rest.map((one) => html`<option value=${one}>${text(one)}</option>`)}</select>
      <button class="button" disabled=${busy}><span>Add ${what}</span></button></form>`}`
}

// Attached and inline ones. `one`: User, Group, Role; `mine`: the parameter that names it.
export function Policies({ session, one, mine }) {
  const list = useLoad(async () => {
    const [attached, inline, all] = await Promise.all([
      session.iamList(`ListAttached${one}Policies`, mine, 'AttachedPolicies'), session.iamList(`List${one}Policies`, mine, 'PolicyNames'), session.iamList('ListPolicies', {}, 'Policies')
    ])
    return { attached: attached.map((entry) => entry.get('PolicyArn')), inline: inline.map((entry) => entry.text), all: all.map((entry) => entry.get('Arn')) }
  }, [session, one, JSON.stringify(mine)])
  const [open, setOpen] = useState(null)
  const [run, busy, error] = useAction(async (action, parameters) => {
    await session.iam('iam', action, { ...mine, ...parameters })
    await list.again()
    announce('Done')
  })
  const short = (arn) => shown(arn.replace(/^arn:aws:iam::(aws|\d+):policy\//, ''))
  return html`
    <section><h3>Attached policies</h3>
      <${Problem} error=${list.error || error} />
      ${list.value && html`<${Chosen} of=${list.value.attached} all=${list.value.all} none="None attached." what="policy" busy=${busy} text=${short}
        onAdd=${(arn) => run(`Attach${one}Policy`, { PolicyArn: arn })} onRemove=${(arn) => run(`Detach${one}Policy`, { PolicyArn: arn })} />`}
    </section>
    <section><h3>Own policies</h3>
      ${list.value?.inline.length === 0 && html`<p class="note">None.</p>`}
      ${list.value?.inline.length > 0 && html`<ul class="lines">${list.value.inline.map((name) => html`<li><button type="button" class="link" onClick=${() => setOpen(name)}>${shown(name)}</button>
        <${Button} kind="quiet" icon="trash" label="Delete ${shown(name)}" disabled=${busy} onClick=${() => run(`Delete${one}Policy`, { PolicyName: name })} /></li>`)}</ul>`}
      <${Button} icon="plus" onClick=${() => setOpen('')}>New policy<//>
    </section>
    ${open !== null && html`<${Inline} session=${session} one=${one} mine=${mine} name=${open} onClose=${() => { setOpen(null); list.again() }} />`}`
}

function Inline({ session, one, mine, name, onClose }) {
  const [as, setAs] = useState(name)
  const found = useLoad(async () => {
    if (!name) return ''
    const answer = await session.iam('iam', `Get${one}Policy`, { ...mine, PolicyName: name })
    return indented(decodeURIComponent(answer.get(`Get${one}PolicyResult`, 'PolicyDocument')))
  }, [session, name])
  const save = async (text) => {
    await session.iam('iam', `Put${one}Policy`, { ...mine, PolicyName: as, PolicyDocument: text })
    onClose()
  }
  const example = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: ['s3:*'], Resource: ['*'] }] }, null, 2)
  return html`<${Dialog} title=${name ? shown(name) : 'New policy'} onClose=${onClose}>
    <${Problem} error=${found.error} />
    ${!name && html`<div class="field"><label for="inline-name">Name</label><input id="inline-name" value=${as} onInput=${(event) => setAs(event.target.value)} maxlength="128" /></div>`}
    ${found.value !== undefined && html`<${Editor} label="Policy document" language="json" text=${found.value} example=${example} save=${save} />`}
  <//>`
}
