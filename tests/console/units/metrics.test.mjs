// What the metrics say together.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { carried, gpus, read } from '../../../console/src/metrics.js'

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

const device = (numbers, at) => Object.assign(read(Object.entries(numbers).map(([name, n]) => `verbena_gpudirect_${name} ${n}\n`).join('')), { at })

test('GPUs that copy for the server have bytes and copies, and rates between two readings', () => {
  const first = { devices: 2, copies_total: 10, 'bytes_total{direction="to_device"}': 1000, 'bytes_total{direction="from_device"}': 300, lost_devices: 0 }
  const later = { ...first, copies_total: 16, copies_failed_total: 1, 'bytes_total{direction="to_device"}': 5000, mapped_bytes: 77, lost_devices: 1, losses_total: 3, set_aside_bytes: 9 }
  assert.equal(gpus(null, device(first, 0)).rates, null)
  assert.deepEqual(gpus(device(first, 0), device(later, 2000)), {
    devices: 2, lost: 1, losses: 3, mapped: 77, aside: 9, toDevice: 5000, fromDevice: 300, copies: 16, failed: 1,
    rates: { toDevice: 2000, fromDevice: 0, copies: 3 }
  })
})

test('a server without GPUs, which has these metrics too, tells of none', () => {
  assert.equal(gpus(null, device({ devices: 0, copies_total: 0, 'bytes_total{direction="to_device"}': 0 }, 0)), null)
  assert.equal(gpus(null, device({}, 0)), null)
})
