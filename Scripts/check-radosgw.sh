#!/bin/sh
# Runs the conformance checks of file stores, and the tests of the store in S3, on radosgw (Ceph's server with the API of S3),
# beside those on moto. Installs Ceph with apt-get (Debian), starts one monitor, one manager, one object store in memory and
# radosgw on loopback, in a temporary directory, and stops them.
#
# usage: check-radosgw.sh [FILTER]
#
# FILTER is a regular expression of tests, by default those below.
set -eu
cd "$(dirname "$0")/.."

if ! command -v radosgw >/dev/null || ! command -v ceph-osd >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends radosgw ceph-mon ceph-mgr ceph-osd ceph-common
fi

dir=$(mktemp -d)
stop() {
    # The gateway first: it waits for the others.
    for pid in $(tac "$dir/pids" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    sleep 1
    for pid in $(tac "$dir/pids" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM
fail() {
    echo "check-radosgw: $1" >&2
    tail -n 30 "$dir"/log/*.out >&2
    exit 1
}

# Two ports that are free at present.
set -- "$(python3 -c '
import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')" "$@"
monitor=${1% *} gateway=${1#* }
shift

mkdir "$dir/mon" "$dir/mgr" "$dir/osd" "$dir/rgw" "$dir/run" "$dir/log"
fsid=$(cat /proc/sys/kernel/random/uuid)
osd=$(cat /proc/sys/kernel/random/uuid)
export CEPH_CONF="$dir/ceph.conf"
cat >"$CEPH_CONF" <<CONF
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$monitor]
ms bind ipv6 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = $dir/keyring
run dir = $dir/run
admin socket = $dir/run/\$name.\$pid.asok
log file = $dir/log/\$name.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
[mon.a]
mon data = $dir/mon
[mgr.x]
mgr data = $dir/mgr
[osd.0]
osd data = $dir/osd
osd objectstore = memstore
memstore device bytes = 4294967296
[client.rgw]
rgw data = $dir/rgw
rgw frontends = beast endpoint=127.0.0.1:$gateway
CONF
ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
for name in client.admin client.rgw mgr.x osd.0; do
    ceph-authtool "$dir/keyring" --gen-key -n $name --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >/dev/null
done
monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$monitor]" "$dir/monmap" >/dev/null
ceph-mon --mkfs -i a --fsid "$fsid" --monmap "$dir/monmap" --keyring "$dir/keyring"

start() {
    name=$1
    shift
    "$@" >"$dir/log/$name.out" 2>&1 &
    echo $! >>"$dir/pids"
}
start mon ceph-mon -f -i a
timeout 60 ceph osd new "$osd" >/dev/null || fail "the monitor does not answer"
start mgr ceph-mgr -f -i x
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >"$dir/log/mkfs.out" 2>&1 || fail "the object store was not made"
start osd ceph-osd -f -i 0
start rgw radosgw -f -n client.rgw
key=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
timeout 120 radosgw-admin user create --uid=tester --display-name=tester --access-key=tester --secret-key="$key" \
    >"$dir/log/user.out" 2>&1 || fail "no user was created"
tries=0
until python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$gateway/', timeout=5)" 2>/dev/null; do
    tries=$((tries + 1))
    test "$tries" -lt 60 || fail "radosgw does not answer"
    sleep 1
done

export FORGE_LAB=1
swift build --build-tests
test $# -gt 0 || set -- 'S3ConformanceTests|S3FileStoreTests'
FORGE_S3_ENDPOINT="http://127.0.0.1:$gateway" AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY="$key" \
    swift test --skip-build --filter "$1" >"$dir/log/tests.txt" 2>&1 ||
    { grep -E '✘|error:|Fatal|Test run' "$dir/log/tests.txt" | head -n 100; exit 1; }
echo "$(radosgw --version 2>/dev/null)"
grep -E 'Test run with [1-9][0-9]* tests?' "$dir/log/tests.txt"
