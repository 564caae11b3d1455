// Temporary credentials from STS for users without a key. Tokens and passwords go in the body, never in an address.
import { ApiError } from './api.js'
import { queryText } from './sign.js'
import { parse } from './xml.js'

export async function assumeRole(action, parameters) {
  const pairs = Object.entries({ Action: action, Version: '2011-06-15', ...parameters }).filter(([, value]) => value)
  const answer = await fetch('/', {
    method: 'POST',
    body: queryText(pairs),
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error'
  })
  const top = parse(await answer.text())
  if (!answer.ok) throw new ApiError(answer.status, top.get('Error', 'Code'), top.get('Error', 'Message') || `The server answered with status ${answer.status}.`)
  const got = top.at(`${action}Result`, 'Credentials')
  return { accessKey: got.get('AccessKeyId'), secret: got.get('SecretAccessKey'), token: got.get('SessionToken'), expires: got.get('Expiration') }
}

// Of the operator's directory (LDAP). Without a role the server uses the configured one.
export const byDirectory = ({ name, password, role }) => assumeRole('AssumeRoleWithLDAPIdentity', { RoleArn: role, LDAPUsername: name, LDAPPassword: password })
