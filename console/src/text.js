// Names and numbers as people read them. Names are untrusted: they are only shown as text.

export const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text)

// Control characters, and those that change the direction of text, could make one name look like another.
const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g
export const shown = (name) => name.replace(hidden, (c) => {
  const code = c.charCodeAt(0)
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? '\u2421' : '\ufffd'
})

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']
export function size(bytes) {
  let at = 0
  let n = Number(bytes) || 0
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024
    ++at
  }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[at]}`
}

export function count(n) {
  if (!Number.isFinite(n)) return '–'
  if (n > 0 && n < 10 && n % 1 !== 0) return n.toFixed(1)
  return Math.round(n).toLocaleString('en-US')
}

export function seconds(s) {
  if (!Number.isFinite(s)) return '–'
  if (s >= 1) return `${s.toFixed(s >= 10 ? 0 : 1)} s`
  if (s >= 1e-3) return `${(s * 1e3).toFixed(s >= 1e-2 ? 0 : 1)} ms`
  return `${Math.max(1, Math.round(s * 1e6))} µs`
}

export function date(text) {
  const at = new Date(text)
  if (!text || Number.isNaN(at.getTime())) return '–'
  const two = (n) => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`
}

// With seconds.
export function moment(text) {
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? shown(String(text)) : `${date(text)}:${String(at.getSeconds()).padStart(2, '0')}`
}

export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`
