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

let stores: [Target.Dependency] = [
    "ForgeEtcd", "ForgeFileStore", "ForgeFileSystem", "ForgeKVStore", "ForgeS3", "ForgeStorage", "ForgeStorageTesting",
].map { .product(name: $0, package: "ForgeStorage") }

let client: [Target.Dependency] = [
    .product(name: "AsyncHTTPClient", package: "async-http-client"),
    .product(name: "Crypto", package: "swift-crypto"),
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
]

// The tests of stores on servers, a package of its own: only it enables the traits and so builds SwiftNIO.
let package = Package(
    name: "ServerTests",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "ForgeStorage", path: "..", traits: ["Etcd", "S3"]),
        .package(name: "Fleet", path: "../Examples/Fleet"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        .target(name: "ServerTestSupport", dependencies: metrics, swiftSettings: settings),
        .target(name: "EtcdServers", dependencies: ["ServerTestSupport"], swiftSettings: settings),
        .target(name: "S3Servers", dependencies: ["ServerTestSupport"] + stores, swiftSettings: settings),
        // Linearizability of any store: recorded histories and their checker.
        .target(name: "Histories", dependencies: stores, swiftSettings: settings),

        .executableTarget(
            name: "etcd-faults", dependencies: ["EtcdServers", "Histories", "ServerTestSupport"] + stores,
            swiftSettings: settings),
        .executableTarget(
            name: "server-stress", dependencies: ["EtcdServers", "S3Servers"] + stores, swiftSettings: settings),

        // Stores beside plain requests of the same client.
        .executableTarget(
            name: "etcd-bench", dependencies: ["EtcdServers"] + stores + client, swiftSettings: settings),
        .executableTarget(
            name: "mirror-bench", dependencies: ["EtcdServers"] + stores + client, swiftSettings: settings),
        // Its folder `Signing` has links to sources of ForgeS3, which are compiled with the trait.
        .executableTarget(
            name: "s3-bench", dependencies: stores + client, swiftSettings: settings + [.define("S3")]),

        .testTarget(name: "HistoriesTests", dependencies: ["Histories"] + stores, swiftSettings: settings),
        .testTarget(
            name: "ForgeEtcdTests",
            dependencies: ["EtcdServers", "Histories", "ServerTestSupport"] + stores + client + metrics,
            swiftSettings: settings),
        .testTarget(
            name: "ForgeS3Tests", dependencies: ["S3Servers", "ServerTestSupport"] + stores + client + metrics,
            swiftSettings: settings),
        // They run executables, which are built with the traits here.
        .testTarget(
            name: "ForgeCommandsServerTests",
            dependencies: [
                "EtcdServers", "S3Servers", "ServerTestSupport", .product(name: "forge", package: "ForgeStorage"),
            ] + stores,
            swiftSettings: settings),
        .testTarget(
            name: "FleetTests",
            dependencies: [
                "EtcdServers", "S3Servers", "ServerTestSupport", .product(name: "fleet-server", package: "Fleet"),
            ],
            swiftSettings: settings),
    ]
)
