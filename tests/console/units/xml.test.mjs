// XML as the editors of a bucket's configuration show and save it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse, pretty } from '../../../console/src/xml.js'

// It was shown, and saved, as "&#10;  ".
test('an empty container over two lines stays empty', () => {
  assert.equal(pretty(parse('<Rule>\n  <Filter>\n  </Filter>\n</Rule>')), '<Rule>\n  <Filter></Filter>\n</Rule>\n')
})

test('blanks of a value stay', () => {
  for (const value of [' a &#10;b ', ' ']) {
    const text = `<Rule>\n  <Prefix>${value}</Prefix>\n</Rule>\n`
    assert.equal(pretty(parse(text)), text)
  }
})
