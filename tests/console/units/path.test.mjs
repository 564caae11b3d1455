// The path of a request is made of names that addresses and dialogs give.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isBucketName, pathOf } from '../../../console/src/api.js'

test('a bucket and a key become a path', () => {
  assert.equal(pathOf('photos'), '/photos')
  assert.equal(pathOf('logs--local1-az1--x-s3', 'a b/ü'), '/logs--local1-az1--x-s3/a%20b/%C3%BC')
})

// An address could make the page of a bucket's settings write to an object.
test('what is no name of a bucket gets into no path', () => {
  for (const name of ['', 'photos/precious.db', '.', '..', '-', 'photos?acl', 'photos#', 'a%2Fb', 'ü', 'a b', 'a\\b']) {
    assert.equal(isBucketName(name), false, name)
    assert.throws(() => pathOf(name), /no name of a bucket/, name)
    assert.throws(() => pathOf(name, 'key'), /no name of a bucket/, name)
  }
})
