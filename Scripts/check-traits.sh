#!/bin/sh
# Checks that an app without the traits neither resolves nor builds SwiftNIO, and that it is told which trait is missing.
set -eu
cd "$(dirname "$0")/.."

app=$(mktemp -d)
trap 'rm -rf "$app"' EXIT
mkdir -p "$app/Sources/App"
cat >"$app/Package.swift" <<END
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "App", platforms: [.macOS(.v15)],
    dependencies: [.package(name: "ForgeStorage", path: "$PWD")],
    targets: [
        .executableTarget(name: "App", dependencies: [.product(name: "ForgeEtcd", package: "ForgeStorage")])
    ])
END
echo 'import ForgeEtcd' >"$app/Sources/App/main.swift"
swift build --package-path "$app"
if grep -E '"identity".*(nio|async-http-client|metrics|tracing)' "$app/Package.resolved"; then
    echo "check-traits: resolved without the trait" >&2
    exit 1
fi
if find "$app/.build" -name '*NIO*' | grep .; then
    echo "check-traits: built without the trait" >&2
    exit 1
fi
echo 'let store: EtcdKVStore? = nil' >>"$app/Sources/App/main.swift"
if swift build --package-path "$app" >"$app/log" 2>&1 || ! grep -q "'EtcdKVStore' is unavailable: .*trait Etcd" "$app/log"; then
    cat "$app/log"
    echo "check-traits: the missing trait is not named" >&2
    exit 1
fi
echo "check-traits: without the trait nothing of SwiftNIO is resolved or built, and the compiler names the trait"
