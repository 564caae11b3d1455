// A certified OpenID Connect provider (npm's oidc-provider) on HTTPS: node oidc_provider.mjs PORT CERTIFICATE KEY ALGORITHM
// Prints its URL. A new one on the same port is the same issuer with another key.
import fs from 'node:fs';
import https from 'node:https';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

const [port, certificate, key, algorithm] = process.argv.slice(2);
const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
const server = https.createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) });
await new Promise((resolve) => server.listen(Number(port), '127.0.0.1', resolve));
const issuer = `https://localhost:${server.address().port}`;
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...(await exportJWK(privateKey)), use: 'sig', alg: algorithm }] },
  clients: [{
    client_id: 'store', client_secret: 'a secret of the client', redirect_uris: ['https://localhost/signed-in'],
    response_types: ['code'], grant_types: ['authorization_code'], id_token_signed_response_alg: algorithm,
  }, {
    // A page in a browser: it has no secret. Of a native application's redirects on loopback any port is good.
    client_id: 'console', application_type: 'native', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1/-/console/'],
    response_types: ['code'], grant_types: ['authorization_code'], id_token_signed_response_alg: algorithm,
  }],
  clientBasedCORS: (_, origin) => origin.startsWith('http://127.0.0.1:'),
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, 'https://aws.amazon.com/tags': { principal_tags: { team: ['red'] } } }),
  }),
  claims: { openid: ['sub', 'https://aws.amazon.com/tags'] },
  conformIdTokenClaims: false,
  pkce: { methods: ['S256'], required: () => false },
  cookies: { keys: ['a key of the cookies'] },
});
server.on('request', provider.callback());
console.log(issuer);
