// The access log, searched by the server: a page of lines after the other, newest first.
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { count, moment, seconds, shown, size } from './text.js'
import { Button, Dialog, Empty, Field, Problem, announce } from './ui.js'

const pageLines = 100
const keptLines = 2000 // rows in the page; older ones push newer ones out

const spans = [['900', 'the last 15 minutes'], ['3600', 'the last hour'], ['86400', 'the last day'], ['604800', 'the last week'], ['', 'everything']]
const outcomes = [['', 'any'], ['ok', 'done'], ['failed', 'any error'], ['denied', 'denied (401 to 403)'], ['error', 'the server’s error (5xx)'], ['404', 'not found (404)']]
const doors = [['', 'any'], ['http', 'HTTP'], ['token', 'S3 by token'], ['native', 'native']]

// The form's values, as parameters of the call.
function request(form) {
  const { span, from, until, ...rest } = form
  const wanted = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''))
  const time = (text) => new Date(text).toISOString()
  if (from) wanted.since = time(from)
  else if (span) wanted.since = new Date(Date.now() - span * 1000).toISOString()
  if (until) wanted.until = time(until)
  return wanted
}

// Searches until a page is full, the log ends or the search is stopped: one call reads a bounded part of the log.
class Search {
  constructor(session, wanted, told) {
    Object.assign(this, { session, wanted, told, lines: [], next: '', reaches: '', unreadable: 0, problems: [], log: '', busy: false, ended: false, error: null, dropped: 0 })
  }
  async more() {
    if (this.busy) return
    Object.assign(this, { busy: true, ended: false, error: null })
    this.told()
    let found = 0
    try {
      do {
        const page = await this.session.admin('audit', { ...this.wanted, lines: pageLines - found, ...(this.next && { next: this.next }) })
        this.log = page.log
        found += page.lines.length
        this.lines = [...this.lines, ...page.lines]
        this.dropped += Math.max(0, this.lines.length - keptLines)
        this.lines = this.lines.slice(-keptLines)
        this.next = page.next || ''
        this.reaches = page.reaches || this.reaches
        this.unreadable += page.unreadable || 0
        this.problems = page.problems || []
        this.told()
      } while (this.next && found < pageLines && !this.ended)
      announce(`${count(found)} lines`)
    } catch (error) {
      this.error = error
    }
    this.busy = false
    this.told()
  }
}

export function Audit({ session }) {
  const [, redraw] = useState(0)
  const search = useRef(null)
  const [open, setOpen] = useState(null)
  const begin = (form) => {
    if (search.current) search.current.ended = true
    const mine = new Search(session, request(form), () => search.current === mine && redraw((n) => n + 1))
    search.current = mine
    mine.more()
  }
  useEffect(() => {
    begin({ span: '3600' })
    return () => {
      if (search.current) search.current.ended = true
      search.current = null
    }
  }, [session])
  const submit = (event) => {
    event.preventDefault()
    begin(Object.fromEntries(new FormData(event.target)))
  }
  const now = search.current
  return html`
    <form class="filters" onSubmit=${submit} aria-label="What to search for">
      <${Field} label="When" name="span" options=${spans} value="3600" />
      <${Field} label="Says" name="search" maxlength="200" placeholder="any text" />
      <${Field} label="Who" name="principal" maxlength="200" placeholder="user/alice, or a key" />
      <${Field} label="What was asked" name="action" maxlength="100" placeholder="DELETE object, iam:" />
      <${Field} label="Bucket" name="bucket" maxlength="255" />
      <${Field} label="Key begins with" name="prefix" maxlength="1024" />
      <${Field} label="From address" name="peer" maxlength="60" placeholder="10.0.0.0/8" />
      <${Field} label="Outcome" name="outcome" options=${outcomes} />
      <details><summary>More</summary><div class="filters">
        <${Field} label="From the time" name="from" type="datetime-local" step="1" /><${Field} label="Until" name="until" type="datetime-local" step="1" />
        <${Field} label="Door" name="door" options=${doors} /><${Field} label="Account" name="account" maxlength="64" placeholder="name or id" />
        <${Field} label="Request id" name="id" maxlength="64" /></div></details>
      <button class="button main" disabled=${now?.busy}><span>Search</span></button>
    </form>
    ${now && html`<${Results} search=${now} onOpen=${setOpen} />`}
    ${open && html`<${Details} line=${open} onClose=${() => setOpen(null)} />`}`
}

function Results({ search, onOpen }) {
  const { lines, busy, next, log, reaches, unreadable, problems, dropped, error } = search
  if (log === 'off' || log === 'output') return html`<${NotKept} log=${log} />`
  return html`
    <${Problem} error=${error} />
    ${problems.map((one) => html`<p class="problem" role="alert">${shown(one)}</p>`)}
    ${dropped > 0 && html`<p class="hint">${count(dropped)} newer lines are not shown any more.</p>`}
    ${lines.length > 0 && html`<div class="table"><table class="small"><thead><tr><th scope="col">Time</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">On</th><th scope="col">From</th><th scope="col">Outcome</th></tr></thead>
      <tbody>${lines.map((line) => html`<tr key=${line.id + line.time}>
        <td class="when"><button type="button" class="link" onClick=${() => onOpen(line)}>${moment(line.time)}</button></td><td>${shown(who(line))}</td><td>${shown(line.action || line.path || '')}</td>
        <td class="on">${shown(thing(line))}</td><td>${shown(line.peer || '')}</td><td><span class="badge ${line.status >= 400 ? 'warn' : ''}">${line.status}</span> ${shown(line.error || '')}</td></tr>`)}</tbody></table></div>`}
    ${!busy && lines.length === 0 && !next && !error && html`<p class="note">No such request.</p>`}
    <div class="bar"><p class="hint" role="status">${busy ? `Searching… ${reaches && `at ${moment(reaches)}`}` : next ? `Searched back to ${moment(reaches)}.` : 'That is all.'}
      ${unreadable > 0 ? ` ${count(unreadable)} lines of the log are cut off, or were not written by a server.` : ''}</p>
      <div class="tools">${busy ? html`<${Button} onClick=${() => { search.ended = true }}>Stop<//>` : next && html`<${Button} onClick=${() => search.more()}>Older<//>`}</div></div>`
}

const who = (line) => line.principal ? line.principal.replace(/^arn:aws:\w+::/, '') : line.access_key || 'unknown'
const thing = (line) => [line.bucket, line.key].filter(Boolean).join('/')

function Details({ line, onClose }) {
  const names = {
    time: ['Time'], door: ['Door'], peer: ['From'], principal: ['Who'], access_key: ['Access key'], action: ['What'], path: ['Path'], bucket: ['Bucket'], key: ['Key'], version: ['Version'],
    status: ['Status', String], error: ['Error'], bytes_in: ['Bytes in', (n) => `${size(n)} (${count(n)})`], bytes_out: ['Bytes out', (n) => `${size(n)} (${count(n)})`],
    transport: ['Carried by', (name) => name.replaceAll('_', ' ')], rdma_bytes: ['Of them by an RDMA device', (n) => `${size(n)} (${count(n)})`], duration_us: ['Took', (n) => seconds(n / 1e6)], id: ['Request id']
  }
  const rows = Object.entries(names).filter(([name]) => line[name] !== undefined)
  return html`<${Dialog} side title="One request" onClose=${onClose}><dl class="facts">${rows.map(([name, [label, read]]) => html`<div><dt>${label}</dt><dd>${shown(read ? read(line[name]) : String(line[name]))}</dd></div>`)}</dl><//>`
}

const NotKept = ({ log }) => html`
  <${Empty} icon="search" title=${log === 'off' ? 'There is no access log' : 'The access log goes to standard output'}>
    To search it here, the server must write it to a file: set <code>access_log: /var/lib/verbena/access.log</code> in its configuration (or <code>VERBENA_ACCESS_LOG</code>) and restart it.
  <//>`
