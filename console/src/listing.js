// A listing of any length in bounded memory: pages are loaded in order, and of those far from the view only the position is
// kept. They are loaded again when the view scrolls back to them.
const pagesKept = 64 // of a thousand rows

// A substring keeps its whole string in memory, here the text of a whole page: copies it.
const ownCopy = (text) => JSON.parse(JSON.stringify(text))

export class Listing {
  constructor(session, bucket, prefix, changed) {
    Object.assign(this, { session, bucket, prefix, changed, pages: [], length: 0, next: undefined, busy: false, error: null, uses: 0, asking: false })
  }

  get whole() {
    return this.next === null
  }

  // The next page, behind all others.
  async more() {
    if (this.busy || this.whole || this.error) return
    this.busy = true
    const page = { first: this.length, count: 0, token: this.next, rows: null, used: 0, error: null }
    this.error = await this.fetch(page, (rows, next) => {
      page.count = rows.length
      this.pages.push(page)
      this.length += rows.length
      this.next = next && ownCopy(next)
    })
    this.busy = false
    this.changed()
  }

  // After an error of the next page.
  moreAgain() {
    this.error = null
    this.changed()
    return this.more()
  }

  // null, or what went wrong.
  async fetch(page, take) {
    try {
      const found = await this.session.list(this.bucket, { prefix: this.prefix, after: page.token })
      // A page's keys and folders are each in order, and belong between each other.
      const rows = [...found.folders.map((key) => ({ key, folder: true })), ...found.keys.filter((one) => one.key !== this.prefix)]
      page.rows = rows.sort((a, b) => (a.key < b.key ? -1 : 1))
      page.used = ++this.uses
      take(page.rows, found.next)
      this.forget()
      return null
    } catch (error) {
      return error
    }
  }

  // Drops the rows of the least recently used page.
  forget() {
    const kept = this.pages.filter((page) => page.rows)
    if (kept.length <= pagesKept) return
    kept.reduce((oldest, page) => (page.used < oldest.used ? page : oldest)).rows = null
  }

  // The page that has a row.
  page(at) {
    let low = 0
    let high = this.pages.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.pages[middle].first <= at) low = middle
      else high = middle - 1
    }
    return this.pages[low]
  }

  // Rows from `first` to before `last`. One that is not there says why: {state}, 'coming', 'failed' (its page, which
  // again() asks for once more) or 'gone' (its page has fewer than it had).
  slice(first, last) {
    const rows = []
    for (let at = first; at < last; ++at) {
      const page = this.page(at)
      page.used = ++this.uses
      if (!page.rows && !page.error) this.fetchAgain(page)
      const state = page.rows ? 'gone' : page.error ? 'failed' : 'coming'
      rows.push(page.rows?.[at - page.first] || { state, page })
    }
    return rows
  }

  // After an error of that page.
  again(page) {
    page.error = null
    this.changed() // the view then loads it again
  }

  // One at a time: fast scrolling skips most of them.
  async fetchAgain(page) {
    if (this.asking) return
    this.asking = true
    page.error = await this.fetch(page, () => {})
    this.asking = false
    this.changed()
  }
}
