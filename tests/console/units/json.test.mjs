// JSON that is shown, and perhaps saved, with its blanks moved and nothing else changed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { indented } from '../../../console/src/json.js'

test('numbers, names that are there twice and their order stay as they are', () => {
  const text = '{"b":12345678901234567890,"2":1.0,"a":1e2,"1":-0,"b":"again","__proto__":{}}'
  assert.equal(indented(text), `{
  "b": 12345678901234567890,
  "2": 1.0,
  "a": 1e2,
  "1": -0,
  "b": "again",
  "__proto__": {}
}`)
})

test('texts stay as they are, whatever is in them', () => {
  const text = '["a \\" {[,:]} \\\\","\\u0041\\/ ", "",\t"\u2003\u00e4\ud83d\ude00 "]'
  assert.equal(indented(text), '[\n  "a \\" {[,:]} \\\\",\n  "\\u0041\\/ ",\n  "",\n  "\u2003\u00e4\ud83d\ude00 "\n]')
})

test('what has no such surprises looks as JSON.stringify writes it', () => {
  for (const value of [{}, [], [[]], [{}], { a: {} }, { a: [] }, [1, [2, [3, {}], []], { b: null, c: [true, false] }], '', 'x', 7, null]) {
    const wanted = JSON.stringify(value, null, 2)
    assert.equal(indented(JSON.stringify(value)), wanted)
    assert.equal(indented(wanted), wanted)
    assert.equal(indented(`\r\n ${JSON.stringify(value, null, '\t')} \n`), wanted)
  }
})

test('what is not JSON, or nested so deeply that its blanks would fill the memory, stays as it is', () => {
  for (const text of ['', '{', '{"a":}', '{} {}', "{'a':1}", '// {}', '\ufeff{}']) assert.equal(indented(text), text)
  const deep = '['.repeat(20000) + ']'.repeat(20000)
  assert.equal(indented(deep), deep)
})
