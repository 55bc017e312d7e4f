#!/bin/sh
# Calls the stores on servers from many tasks at once in a release build, and cancels some calls at random moments. Fails
# on a wrong value, an inexact counter, a call that does not end, and on descriptors or memory that are not given back.
#
# usage: check-server-stress.sh [TASKS] [SECONDS]
#
# By default 2000 tasks for 300 seconds on each store. Needs etcd and moto, which check-servers.sh installs.
set -eu
cd "$(dirname "$0")/.."

command -v etcd >/dev/null || { echo "check-server-stress: etcd is not installed" >&2; exit 1; }
swift build -c release --package-path ServerTests --product server-stress
stress=$(swift build -c release --package-path ServerTests --show-bin-path)/server-stress
"$stress" etcd "$@"
"$stress" s3 "$@"
