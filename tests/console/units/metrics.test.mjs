// What the metrics say together.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { carried, read } from '../../../console/src/metrics.js'

const of = (numbers) => read(Object.entries(numbers).map(([transport, n]) => `verbena_transport_bytes_total{direction="out",transport="${transport}"} ${n}\n`).join('') +
  'verbena_door_bytes_total{direction="out",door="native"} 900\n')

test('RDMA is what an RDMA device moved, whatever door it came by', () => {
  const local = carried(of({ http: 100, tcp: 100, shared_memory: 800, rdma: 0 }))
  assert.equal(local.share, 0)
  assert.equal(local.sum, 1000)
  assert.deepEqual(local.ways.map((one) => [one.name, one.bytes]), [['shared memory', 800], ['TCP', 100], ['HTTP', 100]])
  assert.equal(carried(of({ http: 250, rdma: 750 })).share, 75)
  assert.deepEqual(carried(of({})), { sum: 0, share: 0, ways: [] })
})
