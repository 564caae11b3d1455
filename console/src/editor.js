// An editor for documents, which marks errors at their place.
import { html } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { parse } from './xml.js'
import { Button, Problem, announce, useAction } from './ui.js'

// {line, column, message} of the first error, or null.
export function check(text, language) {
  try {
    if (language === 'xml') parse(text)
    else JSON.parse(text)
    return null
  } catch (error) {
    return language === 'xml' ? { line: error.line, column: error.column, message: error.message } : jsonPlace(text, error)
  }
}

function jsonPlace(text, error) {
  const at = jsonEnd(text)
  const before = text.slice(0, at).split('\n')
  const message = error.message.replace(/^JSON\.parse: /, '').replace(/ (in JSON )?at position.*$| at line .*$/s, '').replace(/, "?\.\.\..*$/s, '')
  return { line: before.length, column: before.at(-1).length + 1, message }
}

// Finds the first syntax error in JSON: not all browsers report its place.
function jsonEnd(text) {
  const token = /\s*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null))/y
  const open = []
  let wants = 'value' // or 'key', 'colon', 'comma'; 'first' where a bracket may close at once
  for (let at = 0; ;) {
    token.lastIndex = at
    const found = token.exec(text)
    const here = at + /^\s*/.exec(text.slice(at))[0].length
    if (!found) return here
    const [, mark, string] = found
    const closing = mark === '}' || mark === ']'
    if (closing) {
      if (open.pop() !== (mark === '}' ? '{' : '[') || !['comma', 'first', 'firstkey'].includes(wants)) return here
      wants = 'comma'
    } else if (mark === ',') {
      if (wants !== 'comma' || open.length === 0) return here
      wants = open.at(-1) === '{' ? 'key' : 'value'
    } else if (mark === ':') {
      if (wants !== 'colon') return here
      wants = 'value'
    } else if (wants === 'key' || wants === 'firstkey') {
      if (!string) return here
      wants = 'colon'
    } else if (wants === 'value' || wants === 'first') {
      if (mark) open.push(mark)
      wants = mark === '{' ? 'firstkey' : mark === '[' ? 'first' : 'comma'
    } else {
      return here
    }
    at = token.lastIndex
  }
}

// The line that an error of the server is about: the first one with a text that the error quotes.
function placeOf(message, text) {
  const lines = text.split('\n')
  for (const [, quoted] of (message || '').matchAll(/["'“‘`]([^"'”’`]{2,80})["'”’`]/g)) {
    const line = lines.findIndex((one) => one.includes(quoted))
    if (line >= 0) return { line: line + 1, column: lines[line].indexOf(quoted) + 1 }
  }
  return null
}

export function Editor({ label, language, text, example, save, remove, removable, hint }) {
  const [now, setNow] = useState(text)
  const area = useRef()
  const lines = useRef()
  useEffect(() => setNow(text), [text])
  const wrong = now.trim() ? check(now, language) : null
  const [run, busy, error, setError] = useAction(async (act, said) => {
    await act()
    announce(said)
  })
  const at = wrong || (error && placeOf(error.message, now))
  const go = () => {
    const before = now.split('\n').slice(0, at.line - 1).join('\n').length + (at.line > 1 ? 1 : 0)
    area.current.focus()
    area.current.setSelectionRange(before + at.column - 1, before + at.column)
  }
  const count = now.split('\n').length
  return html`
    <div class="editor ${at ? 'wrong' : ''}">
      <pre class="lines" ref=${lines} aria-hidden="true">${Array.from({ length: count }, (_, i) => html`<span class=${at?.line === i + 1 ? 'here' : ''}>${`${i + 1}\n`}</span>`)}</pre>
      <textarea ref=${area} aria-label=${label} aria-invalid=${String(Boolean(at))} spellcheck="false" autocapitalize="none" rows="14" value=${now}
        onInput=${(event) => { setNow(event.target.value); setError(null) }} onScroll=${() => { lines.current.scrollTop = area.current.scrollTop }}></textarea>
    </div>
    ${hint && html`<p class="hint">${hint}</p>`}
    ${wrong && html`<p class="problem" role="alert">${wrong.message} <button type="button" class="link" onClick=${go}>line ${wrong.line}, column ${wrong.column}</button></p>`}
    ${!wrong && error && html`<div><${Problem} error=${error} />${at && html`<button type="button" class="link" onClick=${go}>Go to line ${at.line}</button>`}</div>`}
    <footer>
      ${example && !now.trim() && html`<${Button} onClick=${() => setNow(example)}>Begin with an example<//>`}
      ${remove && removable && html`<${Button} kind="danger" disabled=${busy} onClick=${() => run(remove, 'Removed')}>Remove<//>`}
      <${Button} kind="main" disabled=${busy || Boolean(wrong) || !now.trim() || now === text} onClick=${() => run(() => save(now), 'Saved')}>Save<//>
    </footer>`
}
