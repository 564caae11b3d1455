// A safe preview of an object: text as text, pictures as pictures, never HTML as a page.
import { html } from 'htm/preact'
import { useEffect } from 'preact/hooks'
import { indented } from './json.js'
import { parquet } from './parquet.js'
import { count, size } from './text.js'
import { Loading, Problem, useLoad } from './ui.js'

const textMax = 256 * 1024
const pictureMax = 16 * 1024 * 1024
const pictures = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)$/
const texts = /^(text\/|application\/(json|xml|yaml|x-yaml|toml|javascript|x-sh|x-ndjson|sql))|\+(json|xml)$/
const textNames = /\.(txt|md|json|ndjson|jsonl|csv|tsv|xml|ya?ml|toml|ini|conf|log|js|ts|py|go|c|cc|h|rs|sh|sql|html?|css)$/i

function kindOf(head, name) {
  const type = (head['content-type'] || '').split(';')[0].trim().toLowerCase()
  const bytes = Number(head['content-length'])
  if (bytes === 0) return 'empty'
  if (head['content-encoding'] && head['content-encoding'] !== 'identity') return 'none'
  if (/\.(parquet|parq)$/i.test(name) || type === 'application/vnd.apache.parquet') return 'parquet'
  if (pictures.test(type)) return bytes <= pictureMax ? 'picture' : 'none'
  if (texts.test(type) || textNames.test(name)) return 'text'
  return 'none'
}

export function Preview({ session, bucket, name, head }) {
  const kind = kindOf(head, name)
  const bytes = Number(head['content-length'])
  const range = (from, to) => session.object('GET', bucket, name, { headers: { range: `bytes=${from}-${to - 1}`, 'if-match': head.etag } })
  const look = useLoad(async () => {
    if (kind === 'text') {
      const text = new TextDecoder().decode(await (await range(0, Math.min(bytes, textMax))).arrayBuffer())
      const json = /json$/i.test(name) || /json/.test(head['content-type'])
      return { text: json && bytes <= textMax ? indented(text) : text }
    }
    if (kind === 'picture') {
      const blob = new Blob([await (await range(0, bytes)).arrayBuffer()], { type: head['content-type'] })
      return { url: URL.createObjectURL(blob) }
    }
    if (kind === 'parquet') return { parquet: await parquet(bytes, async (from, to) => (await range(from, to)).arrayBuffer()) }
    return {}
  }, [session, bucket, name, head.etag])
  useEffect(() => () => look.value?.url && URL.revokeObjectURL(look.value.url), [look.value])
  if (kind === 'empty') return html`<p class="note">The object is empty.</p>`
  if (kind === 'none') return html`<p class="note">No preview of ${head['content-type'] || 'this type'}. ${size(bytes)}.</p>`
  if (look.error) return html`<${Problem} error=${look.error} />`
  if (!look.value) return html`<${Loading} of="the preview" />`
  if (look.value.url) return html`<img class="picture" src=${look.value.url} alt="The picture in this object" />`
  if (look.value.parquet) return html`<${Schema} of=${look.value.parquet} />`
  return html`<pre class="text" tabindex="0">${look.value.text}</pre>${bytes > textMax && html`<p class="hint">The first ${size(textMax)} of ${size(bytes)}.</p>`}`
}

const Schema = ({ of }) => html`
  <p>${count(of.rows)} rows, ${of.columns.length} columns${of.writer ? html`, written by ${of.writer}` : ''}</p>
  <table class="small"><thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col">May lack</th></tr></thead>
    <tbody>${of.columns.map((one) => html`<tr><th scope="row">${'\u2003'.repeat(one.depth)}${one.name}</th><td>${one.type}</td><td>${one.repeated}</td></tr>`)}</tbody></table>`
