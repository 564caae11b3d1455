// Components of the pages.
import { html } from 'htm/preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

const shapes = {
  bucket: 'M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0 2 13c.3 1.2 2.900 2 6 2s5.700-.8 6-2l2-13',
  folder: 'M3 6.500A1.500 1.500 0 0 1 4.500 5h4.600l2 2.500h8.400A1.500 1.500 0 0 1 21 9v8.500a1.500 1.500 0 0 1-1.500 1.500h-15A1.500 1.500 0 0 1 3 17.500z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  people: 'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zm-6 9c0-3.300 2.700-6 6-6s6 2.700 6 6M16 11.500a3 3 0 1 0-1-5.800M17 14.200c2.400.6 4 2.900 4 5.800',
  pulse: 'M3 12h4l3-8 4 16 3-8h4',
  key: 'M14.500 9.500m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0M10.700 13.200 3.500 20.500M6 18l2.500 2.500',
  plus: 'M12 5v14M5 12h14',
  upload: 'M12 16V4M7 9l5-5 5 5M4 20h16',
  download: 'M12 4v12M7 11l5 5 5-5M4 20h16',
  link: 'M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.700-5.700l-1 1M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.700 5.700l1-1',
  trash: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5',
  close: 'M6 6l12 12M18 6 6 18',
  search: 'M11 11m-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0M20 20l-4.700-4.700',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  gear: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 7m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M8 17m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0',
  out: 'M14 4h-9v16h9M10 12h10M16 8l4 4-4 4',
  again: 'M20 5v5h-5M4 19v-5h5M19 10a8 8 0 0 0-14-3M5 14a8 8 0 0 0 14 3',
  right: 'M9 5l7 7-7 7'
}

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${shapes[name]} /></svg>`

export const Button = ({ icon, children, kind = '', label, ...rest }) => html`
  <button type="button" class="button ${kind} ${children ? '' : 'bare'}" aria-label=${label} title=${label} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}
  </button>`

// Calls `load` now and when `keys` change: {value, error, loading, again}. A failed `again` leaves the last value.
export function useLoad(load, keys) {
  const [state, set] = useState({ loading: true })
  const turn = useRef(0)
  const again = useCallback(() => {
    const mine = ++turn.current
    set((old) => ({ ...old, loading: true }))
    return load().then(
      (value) => mine === turn.current && set({ value, loading: false }),
      (error) => mine === turn.current && set((old) => ({ value: old.value, error, loading: false }))
    )
  }, keys)
  useEffect(() => {
    set({ loading: true })
    again()
    return () => void ++turn.current
  }, [again])
  return { ...state, again }
}

// Runs a button's action, one at a time: [run, busy, error].
export function useAction(action) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(null)
  const run = async (...given) => {
    setBusy(true)
    setError(null)
    try {
      await action(...given)
    } catch (problem) {
      setError(problem)
    }
    setBusy(false)
  }
  return [run, busy, error, setError]
}

export const Problem = ({ error }) => error
  ? html`<p class="problem" role="alert">${error.message}${error.code && error.code !== error.message ? html` <code>${error.code}</code>` : ''}</p>`
  : null

export const Loading = ({ of }) => html`<p class="loading" role="status">Loading ${of}…</p>`

export const Empty = ({ icon, title, children }) => html`
  <div class="empty"><${Icon} name=${icon} /><h2>${title}</h2><p>${children}</p></div>`

let ids = 0
export function useId() {
  const id = useRef(0)
  if (!id.current) id.current = `f${++ids}`
  return id.current
}

export function Field({ label, hint, area, options, ...rest }) {
  const id = useId()
  const described = hint ? `${id}h` : undefined
  const input = options
    ? html`<select id=${id} aria-describedby=${described} ...${rest}>${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`
    : area
      ? html`<textarea id=${id} aria-describedby=${described} spellcheck="false" ...${rest}></textarea>`
      : html`<input id=${id} aria-describedby=${described} autocomplete="off" autocapitalize="none" spellcheck="false" ...${rest} />`
  return html`<div class="field"><label for=${id}>${label}</label>${input}${hint && html`<p class="hint" id=${described}>${hint}</p>`}</div>`
}

export const Check = ({ label, hint, ...rest }) => html`
  <label class="check"><input type="checkbox" ...${rest} /><span>${label}${hint && html`<small>${hint}</small>`}</span></label>`

// A window above the page. Escape closes it, the keyboard stays in it.
export function Dialog({ title, onClose, side, children }) {
  const ref = useRef()
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    ref.current.showModal()
    return () => before?.isConnected && before.focus()
  }, [])
  const outside = (event) => event.target === ref.current && onClose()
  return html`
    <dialog ref=${ref} class=${side ? 'side' : ''} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose() }} onMouseDown=${outside}>
      <div class="dialog"><header><h2 id=${id}>${title}</h2><${Button} icon="close" label="Close" kind="quiet" onClick=${onClose} /></header>${children}</div>
    </dialog>`
}

// A form in a dialog: `action` with what is on it, then it closes.
export function Ask({ title, verb, danger, onClose, action, children }) {
  const [run, busy, error] = useAction(async (values) => {
    await action(values)
    onClose()
  })
  const submit = (event) => {
    event.preventDefault()
    run(Object.fromEntries(new FormData(event.target)))
  }
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form onSubmit=${submit}>
        ${children}
        <${Problem} error=${error} />
        <footer><${Button} onClick=${onClose}>Cancel<//>
          <button class="button ${danger ? 'danger' : 'main'}" disabled=${busy}><span>${busy ? 'One moment…' : verb}</span></button></footer>
      </form>
    <//>`
}

export function Tabs({ label, tabs, now, onChange }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!step) return
    const at = (tabs.findIndex(([id]) => id === now) + step + tabs.length) % tabs.length
    onChange(tabs[at][0])
    event.currentTarget.children[at].focus()
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(([id, text]) => html`<button type="button" role="tab" aria-selected=${String(id === now)} tabindex=${id === now ? 0 : -1} onClick=${() => onChange(id)}>${text}</button>`)}
  </div>`
}

export function Copy({ text, label = 'Copy' }) {
  const [done, set] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    set(true)
    setTimeout(() => set(false), 1500)
  }
  return html`<${Button} icon="copy" kind="quiet" onClick=${copy}>${done ? 'Copied' : label}<//>`
}

export const Secret = ({ label, text }) => html`
  <div class="secret"><span>${label}</span><code tabindex="0">${text}</code><${Copy} text=${text} /></div>`

// The text for screen readers to announce.
export function announce(text) {
  const place = document.getElementById('announcer')
  if (place) place.textContent = text
}
