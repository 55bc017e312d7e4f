// swift-tools-version: 6.2
import Foundation
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// System libraries that `key-values` measures beside the toolkit, if their headers are installed.
/// FORGE_BENCHMARK_PEERS limits them: "none", or names such as "lmdb,sqlite".
struct SystemPeer {
    let name: String
    let module: String
    let library: String
    let header: String
    let package: String

    static let all = [
        SystemPeer(name: "lmdb", module: "CLMDB", library: "lmdb", header: "lmdb.h", package: "liblmdb-dev"),
        SystemPeer(
            name: "sqlite", module: "CSQLite", library: "sqlite3", header: "sqlite3.h", package: "libsqlite3-dev"),
    ]

    var isWanted: Bool {
        guard let wanted = Context.environment["FORGE_BENCHMARK_PEERS"] else { return true }
        return wanted.split(separator: ",").contains { $0 == name }
    }

    var isInstalled: Bool {
        ["/usr/include", "/usr/local/include", "/opt/homebrew/include"].contains { directory in
            FileManager.default.fileExists(atPath: "\(directory)/\(header)")
        }
    }

    var target: Target {
        .systemLibrary(name: module, pkgConfig: library, providers: [.apt([package]), .brew([library])])
    }
}

/// SwiftNIO's file system, measured by `files` if FORGE_BENCHMARK_PEERS names "nio": it takes minutes to build.
let wantsNIO = (Context.environment["FORGE_BENCHMARK_PEERS"] ?? "").split(separator: ",").contains("nio")

let peers = SystemPeer.all.filter { $0.isWanted && $0.isInstalled }

let nio: [Target.Dependency] = [
    .product(name: "_NIOFileSystem", package: "swift-nio"), .product(name: "NIOCore", package: "swift-nio"),
]

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "ForgeStorage", path: ".."),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ] + (wantsNIO ? [.package(url: "https://github.com/apple/swift-nio", from: "2.101.2")] : []),
    targets: [
        .target(name: "CMeasuring"),
        .target(name: "Measuring", dependencies: ["CMeasuring"], swiftSettings: settings),
        .executableTarget(
            name: "file-systems",
            dependencies: [
                "Measuring", .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "files",
            dependencies: [
                "CMeasuring", "Measuring", .product(name: "ForgeFileStore", package: "ForgeStorage"),
                .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "ForgeStorage", package: "ForgeStorage"),
                .product(name: "SystemPackage", package: "swift-system"),
            ] + (wantsNIO ? nio : []),
            swiftSettings: settings),
        .executableTarget(
            name: "instructions",
            dependencies: ["CMeasuring", .product(name: "ForgeKVStore", package: "ForgeStorage")],
            swiftSettings: settings),
        .executableTarget(
            name: "key-values",
            dependencies: [
                "Measuring", .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "ForgeCoding", package: "ForgeStorage"),
                .product(name: "SystemPackage", package: "swift-system"),
            ] + peers.map { .target(name: $0.module) },
            swiftSettings: settings),
        .executableTarget(
            name: "mappings",
            dependencies: [
                "Measuring", .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: settings),
        .target(name: "CStress"),
        .executableTarget(
            name: "stress",
            dependencies: [
                "CStress", .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeFileStore", package: "ForgeStorage"),
                .product(name: "ForgeFileSystem", package: "ForgeStorage"),
            ],
            swiftSettings: settings),
    ] + peers.map(\.target)
)
