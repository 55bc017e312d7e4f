// swift-tools-version: 6.2
import PackageDescription

/// `FORGE_STRICT=1` makes warnings errors.
let strict: [SwiftSetting] = Context.environment["FORGE_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)]

let settings: [SwiftSetting] =
    strict + [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]

// The tests of stores on servers, a package of its own: only it enables the traits and so builds SwiftNIO.
let package = Package(
    name: "ServerTests",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "ForgeStorage", path: "..", traits: ["Etcd"]),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    ],
    targets: [
        // Linearizability of any store: recorded histories and their checker.
        .target(
            name: "Histories", dependencies: [.product(name: "ForgeKVStore", package: "ForgeStorage")],
            swiftSettings: settings),
        .target(name: "EtcdServers", swiftSettings: settings),
        .executableTarget(
            name: "etcd-faults",
            dependencies: [
                "EtcdServers", "Histories",
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeKVStore", package: "ForgeStorage"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "HistoriesTests",
            dependencies: ["Histories", .product(name: "ForgeKVStore", package: "ForgeStorage")],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeEtcdTests",
            dependencies: [
                "EtcdServers", "Histories",
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeStorageTesting", package: "ForgeStorage"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ],
            swiftSettings: settings),
    ]
)
