// The signed-in identity, and temporary credentials.
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { NewKey } from './rights.js'
import { Field, Problem, useAction } from './ui.js'

export function Access({ session }) {
  const [made, setMade] = useState(null)
  const show = (answer, action) => {
    const got = answer.at(`${action}Result`, 'Credentials')
    setMade({ id: got.get('AccessKeyId'), secret: got.get('SecretAccessKey'), token: got.get('SessionToken'), until: got.get('Expiration') })
  }
  const [own, ownBusy, ownError] = useAction(async ({ duration }) => {
    show(await session.iam('sts', 'GetSessionToken', { DurationSeconds: duration }), 'GetSessionToken')
  })
  const [role, roleBusy, roleError] = useAction(async ({ arn, name }) => {
    show(await session.iam('sts', 'AssumeRole', { RoleArn: arn, RoleSessionName: name }), 'AssumeRole')
  })
  const submit = (run) => (event) => {
    event.preventDefault()
    run(Object.fromEntries(new FormData(event.target)))
  }
  const durations = [['900', '15 minutes'], ['3600', 'an hour'], ['43200', '12 hours'], ['129600', '36 hours']]
  return html`
    <header class="head"><h1>Your access</h1></header>
    <div class="cards">
      <section class="card"><h2>You are</h2><dl class="facts">
        <div><dt>ARN</dt><dd><code>${session.arn}</code></dd></div><div><dt>Account</dt><dd><code>${session.account}</code></dd></div>
        <div><dt>Access key</dt><dd><code>${session.signer.accessKey}</code></dd></div><div><dt>Endpoint</dt><dd><code>${location.origin}</code></dd></div></dl></section>
      <section class="card"><h2>Temporary credentials</h2><p class="hint">They have your rights except for IAM, and end by themselves, or when your key is removed.</p>
        <form onSubmit=${submit(own)}><${Field} label="Good for" name="duration" options=${session.arn.endsWith(':root') ? durations.slice(0, 2) : durations} />
          <${Problem} error=${ownError} /><footer><button class="button main" disabled=${ownBusy || session.temporary}><span>Make credentials</span></button></footer></form></section>
      <section class="card"><h2>Become a role</h2><p class="hint">Credentials of a role whose trust policy allows you, for an hour.</p>
        <form onSubmit=${submit(role)}><${Field} label="Role ARN" name="arn" required placeholder="arn:aws:iam::${session.account}:role/reader" /><${Field} label="Session name" name="name" required value="console" maxlength="64" />
          <${Problem} error=${roleError} /><footer><button class="button main" disabled=${roleBusy}><span>Assume role</span></button></footer></form></section>
    </div>
    ${made && html`<${NewKey} ...${made} onClose=${() => setMade(null)} />`}`
}
