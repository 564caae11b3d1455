// XML as S3 and IAM write it: elements and text. A reader of our own, because names may hold characters that a browser's
// parser refuses, and because it makes no document of what it reads.

export class XmlError extends Error {
  constructor(message, text, at) {
    super(message)
    const before = text.slice(0, at).split('\n')
    this.line = before.length
    this.column = before.at(-1).length + 1
  }
}

const named = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }
const depthMax = 64
const plainTag = /^[A-Za-z][A-Za-z0-9]*$/

function plain(text, whole, at) {
  if (!text.includes('&')) return text
  return text.replace(/&([^;&]{0,10})(;?)/g, (all, name, end, place) => {
    const code = /^#(x[0-9a-f]+|\d+)$/i.exec(name)
    const value = code ? Number(code[1].replace(/^x/i, '0x')) : named[name]
    if (!end || value === undefined || value > 0x10ffff) throw new XmlError(`“${all}” is no reference`, whole, at + place)
    return code ? String.fromCodePoint(value) : value
  })
}

class Node {
  constructor(name) {
    this.name = name
    this.nodes = []
    this.text = ''
  }
  all(name) {
    return this.nodes.filter((node) => node.name === name)
  }
  // The node at this path of names; an empty one if it does not exist.
  at(...names) {
    return names.reduce((node, name) => node.nodes.find((one) => one.name === name) || new Node(name), this)
  }
  get(...names) {
    return this.at(...names).text
  }
}

export function parse(text) {
  const top = new Node('')
  const open = [top]
  const token = /<\?[^]*?\?>|<!--[^]*?-->|<\/([^\s<>/]+)\s*>|<([^\s<>/!?]+)((?:\s+[^\s<>=/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/y
  let at = 0
  while (at < text.length) {
    const next = text.indexOf('<', at)
    const end = next < 0 ? text.length : next
    if (end > at) {
      const said = plain(text.slice(at, end), text, at)
      if (open.length === 1 && said.trim()) throw new XmlError('Text outside of the document', text, at)
      open.at(-1).text += said
      at = end
      continue
    }
    // Fast path: most tags have no attributes.
    const close = text.indexOf('>', at)
    const tag = text.slice(at + 1, close)
    if (close > 0 && tag[0] === '/' && open.length > 1 && tag.slice(1) === open.at(-1).name) {
      open.pop()
      at = close + 1
      continue
    }
    if (close > 0 && plainTag.test(tag) && open.length <= depthMax) {
      const node = new Node(tag)
      open.at(-1).nodes.push(node)
      open.push(node)
      at = close + 1
      continue
    }
    token.lastIndex = at
    const found = token.exec(text)
    if (!found) throw new XmlError('This is no tag', text, at)
    if (found[1]) {
      if (open.length === 1 || open.at(-1).name !== found[1]) {
        const wanted = open.length === 1 ? 'nothing is open' : `</${open.at(-1).name}> is missing`
        throw new XmlError(`</${found[1]}> here, but ${wanted}`, text, at)
      }
      open.pop()
    } else if (found[2]) {
      if (open.length > depthMax) throw new XmlError('Too deep', text, at)
      const node = new Node(found[2])
      open.at(-1).nodes.push(node)
      if (!found[4]) open.push(node)
    }
    at = token.lastIndex
  }
  if (open.length > 1) throw new XmlError(`<${open.at(-1).name}> has no end`, text, text.length)
  if (top.nodes.length !== 1) throw new XmlError('There must be one element around all others', text, 0)
  return top.nodes[0]
}

export const escape = (text) => text.replace(/[<>&"']|[\u0000-\u001f]/g, (c) => `&#${c.charCodeAt(0)};`)

// Indented, as people edit it.
export function pretty(node, depth = 0) {
  const pad = '  '.repeat(depth)
  // Blanks over several lines are the indentation of an empty container; one blank may be a prefix.
  const text = node.text.trim() || !node.text.includes('\n') ? escape(node.text) : ''
  if (node.nodes.length === 0) return `${pad}<${node.name}>${text}</${node.name}>\n`
  return `${pad}<${node.name}>\n${node.nodes.map((one) => pretty(one, depth + 1)).join('')}${pad}</${node.name}>\n`
}
