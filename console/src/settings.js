import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { pathOf } from './api.js'
import { Editor } from './editor.js'
import { indented } from './json.js'
import { TagEditor } from './object.js'
import { escape, parse, pretty } from './xml.js'
import { Ask, Button, Field, Loading, Problem, announce, useAction, useLoad } from './ui.js'

const examples = {
  policy: (name) => JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Sid: 'EverybodyReads', Effect: 'Allow', Principal: '*', Action: ['s3:GetObject'], Resource: [`arn:aws:s3:::${name}/*`] }]
  }, null, 2),
  cors: () => `<CORSConfiguration>
  <CORSRule>
    <AllowedOrigin>https://app.example.com</AllowedOrigin>
    <AllowedMethod>GET</AllowedMethod>
    <AllowedHeader>*</AllowedHeader>
    <MaxAgeSeconds>3600</MaxAgeSeconds>
  </CORSRule>
</CORSConfiguration>
`,
  notification: () => `<NotificationConfiguration>
  <QueueConfiguration>
    <Id>new-pictures</Id>
    <Queue>arn:verbena:sqs::TARGET:webhook</Queue>
    <Event>s3:ObjectCreated:*</Event>
    <Filter><S3Key><FilterRule><Name>prefix</Name><Value>pictures/</Value></FilterRule></S3Key></Filter>
  </QueueConfiguration>
</NotificationConfiguration>
`,
  'object-lock': () => `<ObjectLockConfiguration>
  <ObjectLockEnabled>Enabled</ObjectLockEnabled>
  <Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>30</Days></DefaultRetention></Rule>
</ObjectLockConfiguration>
`,
  lifecycle: () => `<LifecycleConfiguration>
  <Rule>
    <ID>tidy</ID>
    <Filter><Prefix>tmp/</Prefix></Filter>
    <Status>Enabled</Status>
    <Expiration><Days>30</Days></Expiration>
    <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>
  </Rule>
</LifecycleConfiguration>
`
}

export function Settings({ session, name, head }) {
  const general = head.value && !head.value.directory
  return html`
    <div class="cards">
      <section class="card"><h2>Durability</h2><${Durability} session=${session} name=${name} head=${head} /></section>
      ${general && html`<section class="card"><h2>Versions</h2><${Versioning} session=${session} name=${name} /></section>`}
      ${general && html`<section class="card"><h2>Tags</h2><${BucketTags} session=${session} name=${name} /></section>`}
      <section class="card wide"><h2>Policy</h2><p class="hint">Who may do what with this bucket, besides its owner.</p><${Document} session=${session} name=${name} what="policy" language="json" /></section>
      ${general && html`<section class="card wide"><h2>Lifecycle</h2><p class="hint">What is removed automatically, and when.</p><${Document} session=${session} name=${name} what="lifecycle" language="xml" /></section>`}
      ${general && html`<section class="card wide"><h2>CORS</h2><p class="hint">Which web pages may read this bucket in a browser.</p><${Document} session=${session} name=${name} what="cors" language="xml" /></section>`}
      ${general && html`<section class="card wide"><h2>Notifications</h2><p class="hint">Which targets receive events of which changes. The operator names targets: <code>events.targets</code>.</p><${Document} session=${session} name=${name} what="notification" language="xml" none="<NotificationConfiguration/>" /></section>`}
      ${general && html`<section class="card wide"><h2>Object lock</h2><p class="hint">How long new versions cannot be removed, if the bucket was made with object lock.</p><${Document} session=${session} name=${name} what="object-lock" language="xml" lasting /></section>`}
      <section class="card"><h2>Delete the bucket</h2><${Remove} session=${session} name=${name} /></section>
    </div>`
}

function Durability({ session, name, head }) {
  const [run, busy, error] = useAction(async (wanted) => {
    await session.call('PUT', pathOf(name), { headers: { 'x-verbena-durability': wanted } })
    await head.again()
    announce(`Durability is ${wanted}`)
  })
  if (!head.value) return head.error ? html`<${Problem} error=${head.error} />` : html`<${Loading} of="the bucket" />`
  return html`<${Field} label="Writes are acknowledged" value=${head.value.durability} disabled=${busy || head.value.directory} onChange=${(event) => run(event.target.value)}
      options=${[['sync', 'sync: when they are on disk'], ['memory', 'memory: at once, on disk a moment later']]} /><${Problem} error=${error} />`
}

function Versioning({ session, name }) {
  const state = useLoad(async () => parse(await session.document(name, 'versioning')).get('Status') || 'Off', [session, name])
  const [run, busy, error] = useAction(async (wanted) => {
    await session.send('PUT', pathOf(name), [['versioning', '']], `<VersioningConfiguration><Status>${wanted}</Status></VersioningConfiguration>`)
    await state.again()
    announce(`Versions: ${wanted}`)
  })
  if (!state.value) return state.error ? html`<${Problem} error=${state.error} />` : html`<${Loading} of="versioning" />`
  const options = [['Enabled', 'Kept: overwritten and deleted objects stay as versions'], ['Suspended', 'Suspended: old versions stay, no new ones']]
  return html`<${Field} label="Old versions" value=${state.value} disabled=${busy} onChange=${(event) => run(event.target.value)}
      options=${state.value === 'Off' ? [['Off', 'None are kept'], options[0]] : options} /><${Problem} error=${error} />`
}

function BucketTags({ session, name }) {
  const tags = useLoad(async () => {
    const text = await session.document(name, 'tagging')
    return text ? parse(text).at('TagSet').all('Tag').map((tag) => [tag.get('Key'), tag.get('Value')]) : []
  }, [session, name])
  const save = (list) => {
    if (list.length === 0) return session.call('DELETE', pathOf(name), { query: [['tagging', '']] })
    const text = list.map(([key, value]) => `<Tag><Key>${escape(key)}</Key><Value>${escape(value)}</Value></Tag>`).join('')
    return session.send('PUT', pathOf(name), [['tagging', '']], `<Tagging><TagSet>${text}</TagSet></Tagging>`)
  }
  return html`<${TagEditor} tags=${tags} save=${save} />`
}

function readable(text, language) {
  if (!text) return ''
  try {
    return language === 'json' ? indented(text) : pretty(parse(text))
  } catch {
    return text
  }
}

// `none`: the document that means "no configuration"; `lasting`: it can be changed but not removed.
function Document({ session, name, what, language, none, lasting }) {
  const document = useLoad(async () => {
    const text = await session.document(name, what)
    return none && text && parse(text).nodes.length === 0 ? '' : readable(text, language)
  }, [session, name, what])
  const save = async (text) => {
    await session.send('PUT', pathOf(name), [[what, '']], text)
    await document.again()
  }
  const remove = async () => {
    if (none) await session.send('PUT', pathOf(name), [[what, '']], none)
    else await session.call('DELETE', pathOf(name), { query: [[what, '']] })
    await document.again()
  }
  if (document.value === undefined) return document.error ? html`<${Problem} error=${document.error} />` : html`<${Loading} of=${what} />`
  return html`<${Editor} label="The bucket's ${what}" language=${language} text=${document.value} example=${examples[what](name)} save=${save} remove=${lasting ? undefined : remove} removable=${document.value !== ''} />`
}

function Remove({ session, name }) {
  const [asking, setAsking] = useState(false)
  const remove = async ({ typed }) => {
    if (typed !== name) throw new Error('This is not the name of the bucket.')
    await session.call('DELETE', pathOf(name))
    announce(`Bucket ${name} is deleted`)
    location.hash = '#/buckets'
  }
  return html`<p>Only an empty bucket can be deleted.</p><${Button} icon="trash" kind="danger" onClick=${() => setAsking(true)}>Delete bucket<//>
    ${asking && html`<${Ask} title="Delete ${name}?" verb="Delete bucket" danger onClose=${() => setAsking(false)} action=${remove}><${Field} label="Type its name" name="typed" required autofocus /><//>`}`
}
