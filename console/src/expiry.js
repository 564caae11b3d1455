// Warnings before temporary credentials end.
import { plural } from './text.js'

const warnedMs = 5 * 60 * 1000

export const ended = 'Your temporary credentials have ended: you are signed out. Sign in again.'

// `expires`, `now`: milliseconds; no `expires`: the key does not end, or its end is unknown.
export function ending(expires, now) {
  if (!expires) return { over: false, warning: '' }
  const left = expires - now
  if (left <= 0) return { over: true, warning: '' }
  return { over: false, warning: left > warnedMs ? '' : `Your temporary credentials end in ${plural(Math.ceil(left / 60000), 'minute')}: you will be signed out then, and uploads will end.` }
}
