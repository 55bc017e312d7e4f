#!/bin/sh
# Type-checks, on Linux, the files that only Apple's platforms compile: against stub modules that declare the symbols
# these files use (Tests/AppleStubs). The package must have been built (`swift build`); its modules are used.
set -eu
cd "$(dirname "$0")/.."

modules=$(swift build --show-bin-path)/Modules
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT

features="-enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
    -enable-upcoming-feature MemberImportVisibility"

for module in Darwin Security SwiftUI CoreGraphics ImageIO; do
    swiftc -swift-version 6 $features -parse-as-library -emit-module -module-name "$module" -I "$stubs" \
        -emit-module-path "$stubs/$module.swiftmodule" "Tests/AppleStubs/$module/$module.swift"
done

# The C modules that the built ones import, found through their module maps: the libraries' own and the generated ones.
maps=$(find .build/checkouts/swift-system/Sources .build/checkouts/swift-crypto/Sources "$modules/../CForgeFileSystem.build" \
    "$modules/../CForgeKVStore.build" \
    -name module.modulemap | sed 's/^/-Xcc -fmodule-map-file=/')

# The name that `package` access goes by is made of the directory's, as the package manager does it.
package=$(basename "$PWD" | tr 'A-Z' 'a-z' | sed 's/[^a-z0-9_]/_/g')

# check TARGET EXCLUDED-PATTERN FILE...: the whole target is checked, and each FILE must be among what is compiled.
check() {
    target=$1
    excluded=$2
    shift 2
    for file; do
        test -f "$file" || { echo "check-apple: $file is missing" >&2; exit 1; }
    done
    sources=$(find "Sources/$target" -name '*.swift' | grep -v "$excluded")
    swiftc -typecheck -swift-version 6 $features -warnings-as-errors -parse-as-library \
        -module-name "$target" -package-name "$package" -I "$stubs" -I "$modules" $maps $sources
    echo "check-apple: $target: $*"
    swiftc -emit-module -swift-version 6 $features -suppress-warnings -parse-as-library \
        -module-name "$target" -package-name "$package" -I "$stubs" -I "$modules" $maps $sources \
        -emit-module-path "$stubs/$target.swiftmodule"
}

check ForgeFileSystem +Linux.swift \
    Sources/ForgeFileSystem/System/Syscalls+Darwin.swift Sources/ForgeFileSystem/System/KqueueWatch+Darwin.swift
check ForgeKVStore +Linux.swift \
    Sources/ForgeKVStore/Settings/ObservedSetting.swift Sources/ForgeKVStore/Stores/UserDefaultsPlatform+Darwin.swift
check ForgeCrypt +Linux.swift \
    Sources/ForgeCrypt/Keychain/SystemKeychain.swift Sources/ForgeCrypt/Secrets/SecureErase+Darwin.swift

# Apart from its target, whose other files are the same everywhere.
decoding=Sources/ForgeStorage/ImageCache/Decoding
swiftc -typecheck -swift-version 6 $features -warnings-as-errors -parse-as-library -module-name ForgeStorage -I "$stubs" \
    $decoding/ImageDecoding.swift $decoding/ImageHeader.swift $decoding/ImageIODecoder.swift
echo "check-apple: ForgeStorage: $decoding/ImageIODecoder.swift"
cache=Sources/ForgeStorage/Cache
swiftc -typecheck -swift-version 6 $features -warnings-as-errors -parse-as-library -module-name ForgeStorage -I "$stubs" \
    $cache/MemoryPressure.swift $cache/MemoryPressure+Darwin.swift
echo "check-apple: ForgeStorage: $cache/MemoryPressure+Darwin.swift"

example=Examples/SettingsApp/SettingsApp.swift
swiftc -typecheck -swift-version 6 -parse-as-library -warnings-as-errors -I "$stubs" -I "$modules" $maps $example
echo "check-apple: $example"
python3 Scripts/check-snippets.py --swiftui "$stubs"
