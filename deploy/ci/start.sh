#!/usr/bin/env bash
# Starts a Verbena server in memory for the rest of a job, waits until its doors are open and says where they are.
#
# usage: start.sh [FLAGS of `verbena server`...]     (for example: --bucket photos --seed test/data)
#
# What it says goes where the system of continuous integration reads variables from: $GITHUB_ENV, else the file that
# $VARIABLES_FILE names (GitLab: reports:dotenv, or `source`), else standard output.
set -euo pipefail
access_key=${ACCESS_KEY:-verbena-test}
secret_key=${SECRET_KEY:-verbena-test-secret}
program=${PROGRAM:-verbena}
wait_s=${WAIT_S:-30}
log=${LOG:-${RUNNER_TEMP:-${TMPDIR:-/tmp}}/verbena-server.log}
ready=$(mktemp)

VERBENA_ROOT_ACCESS_KEY=$access_key VERBENA_ROOT_SECRET_KEY=$secret_key \
  setsid "$program" server --memory --print-ready --http 127.0.0.1:0 --rdma 127.0.0.1:0 "$@" >"$ready" 2>"$log" </dev/null &
pid=$!
end=$((SECONDS + wait_s))
until [ -s "$ready" ]; do
  kill -0 "$pid" 2>/dev/null || { echo "verbena: the server did not start" >&2; cat "$log" >&2; exit 1; }
  [ "$SECONDS" -lt "$end" ] || { kill "$pid"; echo "verbena: not ready within $wait_s s" >&2; cat "$log" >&2; exit 1; }
  sleep 0.02
done
field() { sed -n "1s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$ready"; }
variables="AWS_ENDPOINT_URL=$(field s3)
AWS_ACCESS_KEY_ID=$access_key
AWS_SECRET_ACCESS_KEY=$secret_key
AWS_REGION=$(field region)
AWS_DEFAULT_REGION=$(field region)
S3_TEST_SERVER_PID=$pid"
rm -f "$ready"
if [ -n "${GITHUB_ENV:-}" ]; then
  printf '%s\n' "$variables" >>"$GITHUB_ENV"
elif [ -n "${VARIABLES_FILE:-}" ]; then
  printf '%s\n' "$variables" >"$VARIABLES_FILE"
else
  printf '%s\n' "$variables"
fi
