// The pages about the server that a key may see, by its rights. `may`: names of calls of the admin API (docs/admin.md), and
// 'metrics' if the key may read them.
const tabs = [
  ['about', 'This server', (may) => may.has('info') || may.has('doctor')],
  ['sessions', 'Sessions', (may) => may.has('sessions')],
  ['events', 'Events', (may) => may.has('events')],
  ['upkeep', 'Upkeep', (may) => may.has('info') && may.has('metrics')],
  ['audit', 'Audit', (may) => may.has('audit')],
  ['log', 'Log', (may) => may.has('logs')]
]

export const seesLive = (may) => may.has('top') && may.has('metrics')
export const serverTabs = (may) => tabs.filter(([, , fits]) => fits(may)).map(([id, text]) => [id, text])
