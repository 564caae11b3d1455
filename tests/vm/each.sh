#!/bin/bash
# Runs commands one after the other in one guest, for a guest takes as long to boot as a short test: each.sh CMD... [-- CMD...]...
# The exit status is 0 if all of them succeeded.
failed=()
while [ $# -gt 0 ]; do
  command=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1"); shift; done
  shift
  echo "==== ${command[*]}"
  "${command[@]}" || failed+=("${command[*]} (status $?)")
done
for command in "${failed[@]}"; do echo "FAILED: $command"; done
[ ${#failed[@]} = 0 ]
