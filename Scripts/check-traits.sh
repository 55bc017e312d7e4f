#!/bin/sh
# Checks that an app without traits neither resolves nor builds SwiftNIO, that each trait adds its packages, and that an app
# is told which trait is missing.
set -eu
cd "$(dirname "$0")/.."

apps=$(mktemp -d)
trap 'rm -rf "$apps"' EXIT

# manifest NAME TRAITS PRODUCT: writes a package that uses ForgeStorage with these traits.
manifest() {
    mkdir -p "$apps/$1/Sources/App"
    cat >"$apps/$1/Package.swift" <<END
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "App", platforms: [.macOS(.v15)],
    dependencies: [.package(name: "ForgeStorage", path: "$PWD", traits: [$2])],
    targets: [.executableTarget(name: "App", dependencies: [.product(name: "$3", package: "ForgeStorage")])])
END
    echo "import $3" >"$apps/$1/Sources/App/main.swift"
}

fail() {
    echo "check-traits: $1" >&2
    exit 1
}

# refused STORE TRAIT: checks that an app without the trait is told its name.
refused() {
    manifest none "" "Forge${1%%[KF]*Store}"
    echo "let store: $1? = nil" >>"$apps/none/Sources/App/main.swift"
    if swift build --package-path "$apps/none" >"$apps/log" 2>&1 ||
        ! grep -q "'$1' is unavailable: .*trait $2" "$apps/log"
    then
        cat "$apps/log"
        fail "the missing trait $2 is not named"
    fi
}

manifest none "" ForgeEtcd
swift build --package-path "$apps/none"
if grep -E '"identity".*(nio|async-http-client|hummingbird|metrics|tracing)' "$apps/none/Package.resolved"; then
    fail "resolved without a trait"
fi
# Directories of targets alone: the names in the index end with hashes, and a hash can contain these letters.
if find "$apps/none/.build" -name '*NIO*.build' | grep .; then fail "built without a trait"; fi
refused EtcdKVStore Etcd
refused S3FileStore S3

for pair in Etcd:async-http-client S3:async-http-client Inspector:hummingbird; do
    manifest "${pair%:*}" "\"${pair%:*}\"" ForgeKVStore
    swift package --package-path "$apps/${pair%:*}" resolve
    grep -q "\"${pair#*:}\"" "$apps/${pair%:*}/Package.resolved" || fail "the trait ${pair%:*} does not add ${pair#*:}"
done
echo "check-traits: only the traits add SwiftNIO, and the compiler names the missing one"
