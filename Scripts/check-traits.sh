#!/bin/sh
# Checks what an app without traits resolves and builds: nothing of SwiftNIO and no plugin, and no BoringSSL if it uses key-value
# and file stores alone; that the compiler names the trait that a store on a server needs; and that each trait adds its packages.
set -eu
cd "$(dirname "$0")/.."

apps=$(mktemp -d)
trap 'rm -rf "$apps"' EXIT

# app NAME TRAITS: writes a package that uses the four products with these traits.
app() {
    mkdir -p "$apps/$1/Sources/App"
    cat >"$apps/$1/Package.swift" <<END
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "App", platforms: [.macOS(.v15)],
    dependencies: [.package(name: "ForgeStorage", path: "$PWD", traits: [$2])],
    targets: [
        .executableTarget(
            name: "App",
            dependencies: ["ForgeKVStore", "ForgeFileStore", "ForgeEtcd", "ForgeS3"].map {
                .product(name: \$0, package: "ForgeStorage")
            })
    ])
END
    printf 'import %s\n' ForgeKVStore ForgeFileStore ForgeEtcd ForgeS3 >"$apps/$1/Sources/App/main.swift"
}

fail() {
    echo "check-traits: $1" >&2
    exit 1
}

app none ""
swift build --package-path "$apps/none"
resolved=$(sed -n 's/.*"identity" : "\(.*\)".*/\1/p' "$apps/none/Package.resolved" | sort | tr '\n' ' ')
expected='swift-argument-parser swift-asn1 swift-crypto swift-log swift-system '
test "$resolved" = "$expected" || fail "an app without traits resolves $resolved"
# By the objects in the directories of targets: those of crypto are planned, but not built.
if find "$apps/none/.build" -name '*.o' | grep -E '/[^/]*(NIO|Crypto|BoringSSL|Tracing|Metrics)[^/]*\.build/'; then
    fail "built without a trait"
fi

# refused STORE TRAIT: an app without the trait is told its name.
refused() {
    app none ""
    echo "let store: $1? = nil" >>"$apps/none/Sources/App/main.swift"
    if swift build --package-path "$apps/none" >"$apps/log" 2>&1 ||
        ! grep -q "'$1' is unavailable: .*trait $2" "$apps/log"
    then
        cat "$apps/log"
        fail "the missing trait $2 is not named"
    fi
}
refused EtcdKVStore Etcd
refused S3FileStore S3

for pair in Etcd:async-http-client S3:async-http-client Inspector:hummingbird; do
    app "${pair%:*}" "\"${pair%:*}\""
    swift package --package-path "$apps/${pair%:*}" resolve
    grep -q "\"${pair#*:}\"" "$apps/${pair%:*}/Package.resolved" || fail "the trait ${pair%:*} does not add ${pair#*:}"
done
echo "check-traits: an app without traits builds the stores alone, and the compiler names the missing trait"
