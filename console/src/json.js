// JSON as people read and edit it.

const token = /[\s]+|"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g
const depthMax = 100 // blanks before a line grow with its depth

// Moves the blanks between the tokens and changes nothing else: read and written again, large numbers lose digits, names
// that are there twice are lost, and others are put in order. What is not JSON, or is nested too deeply, stays as it is.
export function indented(text) {
  try {
    JSON.parse(text)
  } catch {
    return text
  }
  const parts = []
  const line = (depth) => '\n' + '  '.repeat(depth)
  let depth = 0
  let empty = false // whether the last token opened an object or a list
  for (const [part] of text.matchAll(token)) {
    if (/^\s/.test(part)) continue
    const closes = part === '}' || part === ']'
    if (closes) --depth
    if (empty !== closes && (empty || closes)) parts.push(line(depth))
    parts.push(part)
    empty = part === '{' || part === '['
    if (empty && ++depth > depthMax) return text
    if (part === ',') parts.push(line(depth))
    if (part === ':') parts.push(' ')
  }
  return parts.join('')
}
