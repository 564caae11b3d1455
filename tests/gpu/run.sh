#!/bin/sh
# On a machine with an NVIDIA GPU (--memory rocm: AMD): what each way to its memory brings, every byte compared, as tables
# for docs/gpu.md.
# Needs this repository's tests/ and a build: the program in $VERBENA or build/verbena, the Python client in
# $CLIENT_PYTHON or build/python. Ends within 5 minutes, and 20 s more where a call of the driver does not return: the
# tables are lost then, but each row was printed as it was made.
cd "$(dirname "$0")/../.." || exit 1
: "${VERBENA:=$PWD/build/verbena}" "${CLIENT_PYTHON:=$PWD/build/python}"
: "${TEST_SERVER_START_S:=120}" # the arena is large, and all of it is page-locked
export VERBENA CLIENT_PYTHON TEST_SERVER_START_S
"$VERBENA" doctor | grep -i gpu
exec timeout -k 20 300 python3 tests/gpu/on_device.py "$@"
