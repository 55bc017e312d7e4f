#!/usr/bin/env bash
# Checks that a package that uses ForgeStorage without the trait Inspector resolves no package of the page's server, and
# that the trait adds it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
consumer=$(mktemp -d)
trap 'rm -rf "$consumer"' EXIT

# Writes the manifest of a package that uses ForgeStorage with the given traits, and prints what it resolves.
resolved() {
    mkdir -p "$consumer/$1/Sources/Consumer"
    echo 'import ForgeStorage' > "$consumer/$1/Sources/Consumer/Consumer.swift"
    cat > "$consumer/$1/Package.swift" << END
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Consumer", platforms: [.macOS(.v15)],
    dependencies: [.package(name: "ForgeStorage", path: "$root", traits: [$2])],
    targets: [
        .target(name: "Consumer", dependencies: [.product(name: "ForgeStorage", package: "ForgeStorage")])
    ])
END
    swift package --package-path "$consumer/$1" resolve >&2
    grep -o '"identity" : "[^"]*"' "$consumer/$1/Package.resolved"
}

without=$(resolved without "")
if grep -E 'hummingbird|swift-nio' <<< "$without"; then
    echo "a package without the trait resolves the server" && exit 1
fi
grep -q swift-crypto <<< "$without" || { echo "nothing was resolved" && exit 1; }
with=$(resolved with '"Inspector"')
grep -q hummingbird <<< "$with" || { echo "the trait does not add the server" && exit 1; }
echo "only the trait adds the server"
