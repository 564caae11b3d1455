#!/usr/bin/env node
'use strict';
// The program itself, with its libraries.
const { spawnSync } = require('node:child_process');
const { environment, program } = require('../index.js');

const done = spawnSync(program, process.argv.slice(2), { stdio: 'inherit', env: environment({}) });
process.exit(done.status === null ? 1 : done.status);
