#!/usr/bin/env node
'use strict';
// `npx --no-install verbena-server [FLAGS]`: a server in memory, until it is told to stop. FLAGS are those of `verbena server --help`.
const { spawn } = require('node:child_process');
const { environment, program } = require('../index.js');

const child = spawn(program, ['server', '--memory', ...process.argv.slice(2)], { stdio: 'inherit', env: environment({}) });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code) => process.exit(code === null ? 1 : code));
