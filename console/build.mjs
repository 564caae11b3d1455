// Makes the console's files: build.mjs FOLDER. The same sources make the same bytes.
import { copyFileSync, mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createRequire } from 'node:module'

const here = dirname(fileURLToPath(import.meta.url))
const target = resolve(process.argv[2])
const modules = process.env.CONSOLE_MODULES || join(here, 'node_modules')
const esbuild = createRequire(pathToFileURL(join(modules, 'x.js')))('esbuild')

mkdirSync(target, { recursive: true })
await esbuild.build({
  absWorkingDir: here,
  entryPoints: { console: 'src/main.js' },
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  nodePaths: [modules],
  outdir: target,
  banner: { js: '// Made by ./dev console from console/. With Preact and htm (MIT, Apache-2.0).' },
  logLevel: 'warning'
})
await esbuild.build({ absWorkingDir: here, entryPoints: { console: 'src/console.css' }, minify: true, outdir: target, logLevel: 'warning' })
for (const name of ['index.html', 'mark.svg']) copyFileSync(join(here, 'src', name), join(target, name))
