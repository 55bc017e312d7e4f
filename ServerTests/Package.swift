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

let metrics: [Target.Dependency] = [
    .product(name: "Metrics", package: "swift-metrics"), .product(name: "MetricsTestKit", package: "swift-metrics"),
]

// The tests of stores on servers, a package of its own: only it enables the traits and so builds SwiftNIO.
let package = Package(
    name: "ServerTests",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "ForgeStorage", path: "..", traits: ["Etcd", "S3"]),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    ],
    targets: [
        .target(name: "ServerTestSupport", dependencies: metrics, swiftSettings: settings),
        // Linearizability of any store: recorded histories and their checker.
        .target(
            name: "Histories", dependencies: [.product(name: "ForgeKVStore", package: "ForgeStorage")],
            swiftSettings: settings),
        .target(name: "EtcdServers", dependencies: ["ServerTestSupport"], swiftSettings: settings),
        .target(
            name: "S3Servers",
            dependencies: ["ServerTestSupport", .product(name: "ForgeS3", package: "ForgeStorage")],
            swiftSettings: settings),
        .executableTarget(
            name: "etcd-faults",
            dependencies: [
                "EtcdServers", "Histories", "ServerTestSupport",
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
                "EtcdServers", "Histories", "ServerTestSupport",
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeStorageTesting", package: "ForgeStorage"),
                .product(name: "NIOCore", package: "swift-nio"),
            ] + metrics,
            swiftSettings: settings),
        .testTarget(
            name: "ForgeS3Tests",
            dependencies: [
                "S3Servers", "ServerTestSupport",
                .product(name: "ForgeS3", package: "ForgeStorage"),
                .product(name: "ForgeFileStore", package: "ForgeStorage"),
                .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "ForgeStorageTesting", package: "ForgeStorage"),
                .product(name: "NIOCore", package: "swift-nio"),
            ] + metrics,
            swiftSettings: settings),
        // They run the executable, which is built with the traits here.
        .testTarget(
            name: "ForgeCommandsServerTests",
            dependencies: [
                "EtcdServers", "S3Servers", "ServerTestSupport",
                .product(name: "forge", package: "ForgeStorage"),
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeS3", package: "ForgeStorage"),
                .product(name: "ForgeStorage", package: "ForgeStorage"),
            ],
            swiftSettings: settings),
    ]
)
