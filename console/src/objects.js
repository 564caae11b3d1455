// The objects below a prefix, any number of them: only visible rows are in the document.
import { html } from 'htm/preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { count, date, plural, shown, size } from './text.js'
import { Ask, Button, Empty, Icon, Loading, Problem, announce } from './ui.js'
import { Listing } from './listing.js'
import { ObjectPanel } from './object.js'
import { filesOf } from './upload.js'

const rowHeight = 40
const tallest = 8e6 // pixels: browsers cut taller things

function useListing(session, bucket, prefix) {
  const [, redraw] = useState(0)
  const [turn, setTurn] = useState(0)
  const ref = useRef(null)
  if (!ref.current || ref.current.turn !== turn) {
    const listing = new Listing(session, bucket, prefix, () => ref.current?.listing === listing && redraw((n) => n + 1))
    ref.current = { turn, listing }
  }
  useEffect(() => void ref.current.listing.more(), [turn])
  return [ref.current.listing, () => setTurn((n) => n + 1)]
}

const folderLink = (bucket, prefix) => `#/buckets/${encodeURIComponent(bucket)}/objects${prefix ? '?prefix=' + encodeURIComponent(prefix) : ''}`

export function Objects({ session, uploads, bucket, prefix }) {
  const [listing, again] = useListing(session, bucket, prefix)
  const [chosen, setChosen] = useState(new Set())
  const [open, setOpen] = useState(null)
  const [removing, setRemoving] = useState(false)
  const [over, setOver] = useState(false)
  const picker = useRef()
  const soon = useRef()
  useEffect(() => () => clearTimeout(soon.current), [])

  const reload = () => {
    setChosen(new Set())
    again()
  }
  const add = (files) => {
    for (const { name, file } of files) {
      uploads.add(bucket, prefix + name, file, () => {
        clearTimeout(soon.current)
        soon.current = setTimeout(reload, 400)
      })
    }
    announce(`${plural(files.length, 'file')} to upload`)
  }
  const drop = async (event) => {
    event.preventDefault()
    setOver(false)
    add(await filesOf(event.dataTransfer))
  }
  const choose = (key) => setChosen((old) => {
    const now = new Set(old)
    if (!now.delete(key)) now.add(key)
    return now
  })
  const parts = prefix.split('/').slice(0, -1)
  return html`
    <div class="bar">
      <nav class="path" aria-label="Folder">
        <a href=${folderLink(bucket, '')}>${bucket}</a>
        ${parts.map((part, i) => html`<${Icon} name="right" /><a href=${folderLink(bucket, parts.slice(0, i + 1).join('/') + '/')}>${shown(part) || '(no name)'}</a>`)}
      </nav>
      <div class="tools">
        ${chosen.size > 0 && html`<${Button} icon="trash" kind="danger" onClick=${() => setRemoving(true)}>Delete ${count(chosen.size)}<//>`}
        <${Jump} bucket=${bucket} prefix=${prefix} />
        <${Button} icon="again" label="Load again" kind="quiet" onClick=${reload} />
        <input ref=${picker} type="file" multiple hidden aria-label="Files to upload" onChange=${(event) => { add(Array.from(event.target.files, (file) => ({ name: file.name, file }))); event.target.value = '' }} />
        <${Button} icon="upload" kind="main" onClick=${() => picker.current.click()}>Upload<//>
      </div>
    </div>
    <${Problem} error=${listing.error} />
    ${listing.error && html`<p><${Button} icon="again" onClick=${() => listing.moreAgain()}>Try again<//></p>`}
    <div class="drop ${over ? 'over' : ''}" onDragOver=${(event) => { event.preventDefault(); setOver(true) }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      ${listing.length === 0 && listing.next === undefined && !listing.error && html`<${Loading} of="objects" />`}
      ${listing.length === 0 && listing.whole && html`<${Empty} icon="file" title="Nothing here">Drop files or folders here, or upload some.<//>`}
      ${listing.length > 0 && html`<${Rows} listing=${listing} bucket=${bucket} prefix=${prefix} chosen=${chosen} onChoose=${choose} onOpen=${setOpen} />`}
    </div>
    ${open && html`<${ObjectPanel} session=${session} bucket=${bucket} name=${open} onClose=${() => setOpen(null)} onGone=${() => { setOpen(null); reload() }} />`}
    ${removing && html`<${Remove} session=${session} bucket=${bucket} names=${[...chosen]} onClose=${() => setRemoving(false)} onDone=${reload} />`}`
}

function Jump({ bucket, prefix }) {
  const go = (event) => {
    event.preventDefault()
    location.hash = folderLink(bucket, prefix + new FormData(event.target).get('more'))
  }
  return html`<form class="search" onSubmit=${go}><${Icon} name="search" /><input type="search" name="more" aria-label="Names that begin with" placeholder="Begins with" autocomplete="off" spellcheck="false" /></form>`
}

function Rows({ listing, bucket, prefix, chosen, onChoose, onOpen }) {
  const box = useRef()
  const [view, setView] = useState({ top: 0, height: 600 })
  const [focus, setFocus] = useState(0)
  // The row that gets the keyboard's focus when it is painted. An effect of an earlier painting may run behind the key
  // press that wants another row: it leaves that to the next one.
  const wanted = useRef(null)
  const total = listing.length
  const whole = total * rowHeight
  const height = Math.min(whole, tallest)
  // Past the tallest box a pixel of the bar is more than a pixel of rows.
  const scale = height > view.height ? (whole - view.height) / (height - view.height) : 1
  const top = view.top * scale
  const first = Math.max(0, Math.floor(top / rowHeight) - 8)
  const last = Math.min(total, Math.ceil((top + view.height) / rowHeight) + 8)
  const rows = listing.slice(first, last)

  useLayoutEffect(() => {
    const look = () => setView({ top: box.current.scrollTop, height: box.current.clientHeight })
    look()
    const watch = new ResizeObserver(look)
    watch.observe(box.current)
    return () => watch.disconnect()
  }, [])
  useEffect(() => {
    if (last > total - 200) listing.more()
  }, [last, total, listing])
  useEffect(() => {
    if (wanted.current !== focus) return
    const row = box.current.querySelector(`[data-row="${focus}"]`)
    if (!row) return // not before it has been scrolled to
    const now = document.activeElement
    const elsewhere = now && now !== document.body && !box.current.contains(now)
    // A placeholder that has the focus passes it to the row that replaces it.
    wanted.current = !elsewhere && rows[focus - first]?.state === 'coming' ? focus : null
    if (!elsewhere) row.focus({ preventScroll: true })
  })

  const move = (event) => {
    const page = Math.floor(view.height / rowHeight) - 1
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -total, End: total }[event.key]
    const row = rows[focus - first]
    if (event.key === ' ' && row && !row.folder && !row.state) {
      event.preventDefault()
      return onChoose(row.key)
    }
    if (!step) return
    event.preventDefault()
    const to = Math.max(0, Math.min(total - 1, focus + step))
    const at = to * rowHeight
    if (at < top || at + rowHeight > top + view.height) box.current.scrollTop = Math.max(0, at - view.height / 2) / scale
    wanted.current = to
    setFocus(to)
  }
  return html`
    <div class="grid" role="grid" aria-label="Objects" aria-rowcount=${listing.whole ? total : -1} aria-multiselectable="true">
      <div class="row labels" role="row"><span role="columnheader" class="pick"><span class="hide">Chosen</span></span><span role="columnheader">Name</span><span role="columnheader" class="much">Size</span><span role="columnheader" class="when">Changed</span></div>
      <div class="rows" role="rowgroup" ref=${box} onScroll=${() => setView({ top: box.current.scrollTop, height: box.current.clientHeight })} onKeyDown=${move}>
        <div role="presentation" style=${{ height: `${height}px`, position: 'relative' }}>
          <div role="presentation" style=${{ position: 'absolute', left: 0, right: 0, top: `${first * rowHeight - top + view.top}px` }}>
            ${rows.map((row, i) => row.state ? html`<${Absent} key=${first + i} state=${row.state} at=${first + i} focused=${first + i === focus} onFocus=${() => { wanted.current = row.state === 'coming' ? first + i : null; setFocus(first + i) }} onAgain=${() => listing.again(row.page)} />` : html`<${Row} key=${row.key} row=${row} at=${first + i} prefix=${prefix} bucket=${bucket} focused=${first + i === focus}
              chosen=${chosen.has(row.key)} onFocus=${() => setFocus(first + i)} onChoose=${onChoose} onOpen=${onOpen} />`)}
          </div>
        </div>
      </div>
    </div>
    <p class="count" role="status">${plural(total, 'entry', 'entries')}${listing.whole ? '' : listing.busy ? ', loading more…' : ' and more'}</p>`
}

// A placeholder: the row is loading, failed to load, or was deleted.
function Absent({ state, at, focused, onFocus, onAgain }) {
  const rest = { 'data-row': at, tabIndex: focused ? 0 : -1, onFocus }
  return html`
    <div class="row ${state === 'gone' ? 'gone' : 'missing'}" role="row" aria-rowindex=${at + 1} aria-busy=${state === 'coming' ? 'true' : undefined}>
      <span role="gridcell" class="pick"></span>
      ${state === 'failed' ? html`<span role="gridcell" class="named"><button type="button" class="name" ...${rest} onClick=${onAgain}><${Icon} name="again" /><span>Could not be loaded. Try again</span></button></span>`
        : html`<span role="gridcell" class="named" ...${rest}>${state === 'gone' ? 'gone' : 'loading…'}</span>`}
    </div>`
}

function Row({ row, at, prefix, bucket, focused, chosen, onFocus, onChoose, onOpen }) {
  const name = shown(row.key.slice(prefix.length)) || '(no name)'
  const rest = { class: 'name', 'data-row': at, tabIndex: focused ? 0 : -1, onFocus }
  return html`
    <div class="row ${chosen ? 'chosen' : ''}" role="row" aria-rowindex=${at + 1} aria-selected=${String(chosen)}>
      <span role="gridcell" class="pick">${!row.folder && html`<input type="checkbox" tabindex="-1" aria-label="Choose ${name}" checked=${chosen} onChange=${() => onChoose(row.key)} />`}</span>
      <span role="gridcell" class="named">${row.folder
        ? html`<a ...${rest} href=${folderLink(bucket, row.key)}><${Icon} name="folder" /><span>${name}</span></a>`
        : html`<button type="button" ...${rest} onClick=${() => onOpen(row.key)}><${Icon} name="file" /><span>${name}</span></button>`}</span>
      <span role="gridcell" class="much">${row.folder ? '' : size(row.size)}</span>
      <span role="gridcell" class="when">${row.folder ? '' : date(row.modified)}</span>
    </div>`
}

function Remove({ session, bucket, names, onClose, onDone }) {
  const remove = async () => {
    const failed = await session.remove(bucket, names.map((key) => ({ key })))
    onDone()
    if (failed.length > 0) throw new Error(`${shown(failed[0].key)}: ${failed[0].message}${failed.length > 1 ? `, and ${failed.length - 1} more` : ''}`)
    announce(`${plural(names.length, 'object')} deleted`)
  }
  return html`
    <${Ask} title="Delete ${plural(names.length, 'object')}?" verb="Delete" danger onClose=${onClose} action=${remove}>
      <ul class="names">${names.slice(0, 8).map((key) => html`<li>${shown(key)}</li>`)}${names.length > 8 && html`<li>and ${count(names.length - 8)} more</li>`}</ul>
      <p class="hint">If the bucket keeps versions, they stay, and the names get delete markers.</p>
    <//>`
}
