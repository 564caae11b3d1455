// Users, groups, roles and policies of the account, by IAM; accounts, by the admin API, for the server's root.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { Accounts } from './accounts.js'
import { Editor } from './editor.js'
import { indented } from './json.js'
import { Keys, Members, Policies } from './rights.js'
import { date, shown } from './text.js'
import { Ask, Button, Dialog, Empty, Field, Icon, Loading, Problem, Tabs, announce, useLoad } from './ui.js'

// The differences between the kinds.
const kinds = {
  users: { one: 'User', list: 'ListUsers', all: 'Users', name: 'UserName', make: 'CreateUser', remove: 'DeleteUser' },
  groups: { one: 'Group', list: 'ListGroups', all: 'Groups', name: 'GroupName', make: 'CreateGroup', remove: 'DeleteGroup' },
  roles: { one: 'Role', list: 'ListRoles', all: 'Roles', name: 'RoleName', make: 'CreateRole', remove: 'DeleteRole' },
  policies: { one: 'Policy', list: 'ListPolicies', all: 'Policies', name: 'PolicyName', make: 'CreatePolicy', remove: 'DeletePolicy' }
}

const policyExample = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: ['s3:GetObject', 's3:ListBucket'], Resource: ['arn:aws:s3:::photos', 'arn:aws:s3:::photos/*'] }]
}, null, 2)
const trustExample = (account) => JSON.stringify({
  Version: '2012-10-17', Statement: [{ Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${account}:root` }, Action: 'sts:AssumeRole' }]
}, null, 2)

export function People({ session, tab }) {
  const tabs = [['users', 'Users'], ['groups', 'Groups'], ['roles', 'Roles'], ['policies', 'Policies'], session.superuser && ['accounts', 'Accounts']].filter(Boolean)
  const known = tabs.some(([id]) => id === tab) ? tab : 'users'
  return html`
    <header class="head"><h1>People</h1></header>
    <${Tabs} label="Kinds" tabs=${tabs} now=${known} onChange=${(to) => { location.hash = `#/people/${to}` }} />
    ${known === 'accounts' ? html`<${Accounts} session=${session} />` : html`<${List} key=${known} session=${session} kind=${known} />`}`
}

function List({ session, kind }) {
  const { one, list, all, name } = kinds[kind]
  const found = useLoad(async () => (await session.iamList(list, {}, all)).map((entry) => ({
    name: entry.get(name), arn: entry.get('Arn'), made: entry.get('CreateDate'), version: entry.get('DefaultVersionId'), trust: entry.get('AssumeRolePolicyDocument')
  })), [session, kind])
  const [making, setMaking] = useState(false)
  const [open, setOpen] = useState(null)
  const subject = found.value?.find((entry) => entry.arn === open)
  return html`
    <div class="bar"><p class="note">${kind === 'policies' ? 'Documents that can be attached to users, groups and roles.' : kind === 'roles' ? 'Rights that users and machines can take on for a limited time.' : ''}</p>
      <div class="tools"><${Button} icon="again" label="Load again" kind="quiet" onClick=${found.again} /><${Button} icon="plus" kind="main" onClick=${() => setMaking(true)}>New ${one.toLowerCase()}<//></div></div>
    <${Problem} error=${found.error} />
    ${found.loading && !found.value && html`<${Loading} of=${kind} />`}
    ${found.value?.length === 0 && html`<${Empty} icon="people" title="No ${kind} yet">Make the first one.<//>`}
    ${found.value?.length > 0 && html`<div class="table"><table><thead><tr><th scope="col">Name</th><th scope="col">ARN</th><th scope="col" class="when">Made</th></tr></thead>
      <tbody>${found.value.map((entry) => html`<tr key=${entry.arn}><th scope="row"><button type="button" class="name" onClick=${() => setOpen(entry.arn)}><${Icon} name=${kind === 'policies' ? 'file' : 'people'} />${shown(entry.name)}</button></th>
        <td class="arn"><code>${shown(entry.arn)}</code></td><td class="when">${date(entry.made)}</td></tr>`)}</tbody></table></div>`}
    ${making && html`<${Make} session=${session} kind=${kind} onClose=${() => setMaking(false)} onMade=${found.again} />`}
    ${subject && html`<${Subject} key=${subject.arn} session=${session} kind=${kind} of=${subject} onClose=${() => setOpen(null)} onChange=${found.again} />`}`
}

function Make({ session, kind, onClose, onMade }) {
  const { one, name, make } = kinds[kind]
  const create = async (values) => {
    const more = { policies: { PolicyDocument: values.document }, roles: { AssumeRolePolicyDocument: values.document } }[kind]
    await session.iam('iam', make, { [name]: values.name, ...more })
    announce(`${one} ${values.name} is made`)
    onMade()
  }
  return html`<${Ask} title="New ${one.toLowerCase()}" verb="Make ${one.toLowerCase()}" onClose=${onClose} action=${create}>
    <${Field} label="Name" name="name" required maxlength="128" autofocus />
    ${kind === 'policies' && html`<${Field} label="Policy" name="document" area rows="10" class="code" defaultValue=${policyExample} required />`}
    ${kind === 'roles' && html`<${Field} label="Who may assume it" name="document" area rows="10" class="code" defaultValue=${trustExample(session.account)} required />`}
  <//>`
}

function Subject({ session, kind, of, onClose, onChange }) {
  const { one, name, remove } = kinds[kind]
  const [removing, setRemoving] = useState(false)
  const mine = { [name]: of.name }
  const gone = async () => {
    await session.iam('iam', remove, kind === 'policies' ? { PolicyArn: of.arn } : mine)
    announce(`${one} ${of.name} is deleted`)
    onClose()
    onChange()
  }
  return html`
    <${Dialog} side title=${shown(of.name)} onClose=${onClose}>
      <p class="arn"><code>${of.arn}</code></p>
      ${kind === 'users' && html`<${Keys} session=${session} user=${of.name} /><${Members} session=${session} user=${of.name} />`}
      ${kind === 'groups' && html`<${Members} session=${session} group=${of.name} />`}
      ${kind === 'roles' && html`<section><h3>Who may assume it</h3><${Trust} session=${session} of=${of} onChange=${onChange} /></section>`}
      ${kind === 'policies' ? html`<${Managed} session=${session} of=${of} onChange=${onChange} />` : html`<${Policies} session=${session} one=${one} mine=${mine} />`}
      ${!of.arn.startsWith('arn:aws:iam::aws:') && html`<footer><${Button} icon="trash" kind="danger" onClick=${() => setRemoving(true)}>Delete ${one.toLowerCase()}<//></footer>`}
      ${removing && html`<${Ask} title="Delete ${of.name}?" verb="Delete" danger onClose=${() => setRemoving(false)} action=${gone}>
        <p class="hint">As at AWS, remove its keys, policies and members first.</p><//>`}
    <//>`
}

function Trust({ session, of, onChange }) {
  const save = async (text) => {
    await session.iam('iam', 'UpdateAssumeRolePolicy', { RoleName: of.name, PolicyDocument: text })
    await onChange()
  }
  return html`<${Editor} label="Trust policy" language="json" text=${indented(decodeURIComponent(of.trust))} save=${save} />`
}

function Managed({ session, of, onChange }) {
  const own = !of.arn.startsWith('arn:aws:iam::aws:')
  const found = useLoad(async () => {
    const answer = await session.iam('iam', 'GetPolicyVersion', { PolicyArn: of.arn, VersionId: of.version })
    return indented(decodeURIComponent(answer.get('GetPolicyVersionResult', 'PolicyVersion', 'Document')))
  }, [session, of.arn, of.version])
  // At most five versions: the oldest one that is not the default makes room.
  const save = async (text) => {
    const versions = await session.iamList('ListPolicyVersions', { PolicyArn: of.arn }, 'Versions')
    const old = versions.filter((one) => one.get('IsDefaultVersion') !== 'true').at(-1)
    if (versions.length >= 5 && old) await session.iam('iam', 'DeletePolicyVersion', { PolicyArn: of.arn, VersionId: old.get('VersionId') })
    await session.iam('iam', 'CreatePolicyVersion', { PolicyArn: of.arn, PolicyDocument: text, SetAsDefault: 'true' })
    await onChange()
  }
  if (found.error) return html`<${Problem} error=${found.error} />`
  if (found.value === undefined) return html`<${Loading} of="the policy" />`
  return own
    ? html`<${Editor} label="Policy document" language="json" text=${found.value} save=${save} hint="Saved as a new version, which counts at once." />`
    : html`<pre class="text" tabindex="0">${found.value}</pre>`
}
