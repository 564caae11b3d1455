'use strict';
// Starts a Verbena server in memory and says where it is:
//
//   const { start } = require('verbena-server');
//   const server = await start({ buckets: ['photos'], seed: 'test/data' });
//   // server.endpoint, server.accessKeyId, server.secretAccessKey, server.region
//   await server.stop();
const { spawn } = require('node:child_process');
const { createInterface } = require('node:readline');
const path = require('node:path');

const folder = path.join(__dirname, 'lib');
// The libraries that the program was built with lie beside it; the C library is the system's.
const environment = (more) => ({
  ...process.env, ...more,
  LD_LIBRARY_PATH: folder + (process.env.LD_LIBRARY_PATH ? ':' + process.env.LD_LIBRARY_PATH : ''),
});
const program = path.join(__dirname, 'program', 'verbena');

function start(options = {}) {
  const {
    buckets = [], seed, region = 'us-east-1', port = 0, args = [],
    accessKeyId = 'verbena-test', secretAccessKey = 'verbena-test-secret', timeout = 10000,
  } = options;
  const flags = ['server', '--memory', '--print-ready', '--region', region, '--http', `127.0.0.1:${port}`, '--rdma', '127.0.0.1:0'];
  for (const name of buckets) flags.push('--bucket', name);
  if (seed) flags.push('--seed', seed);
  const keys = { VERBENA_ROOT_ACCESS_KEY: accessKeyId, VERBENA_ROOT_SECRET_KEY: secretAccessKey };
  const child = spawn(program, [...flags, ...args], { env: environment(keys), stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  let log = '';
  child.stderr.on('data', (text) => { log = (log + text).slice(-8192); });
  // A test run that ends without stop() takes its server along.
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  return new Promise((resolve, reject) => {
    const fail = (why) => { clearTimeout(timer); child.kill('SIGKILL'); process.removeListener('exit', kill); reject(new Error(`${why}\n${log}`)); };
    const timer = setTimeout(() => fail('verbena-server: not ready in time'), timeout);
    child.once('error', (error) => fail(`verbena-server: ${error.message}`));
    ended.then(({ code, signal }) => fail(`verbena-server: ended with ${signal || code}`));
    createInterface({ input: child.stdout }).once('line', (line) => {
      clearTimeout(timer);
      const ready = JSON.parse(line);
      resolve({
        endpoint: ready.s3, native: ready.native, ports: ready.ports, region: ready.region, accessKeyId, secretAccessKey,
        pid: child.pid,
        stop: () => { process.removeListener('exit', kill); child.kill('SIGTERM'); return ended; },
      });
    });
  });
}

module.exports = { start, program, environment };
