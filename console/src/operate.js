// Which pages about the server somebody gets: those whose calls his rights allow. `may`: names of calls of the admin API
// (docs/admin.md), and 'metrics' where they are told to him.
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
