// swift-tools-version: 6.2
import PackageDescription

/// `FORGE_STRICT=1` makes warnings errors.
let strict: [SwiftSetting] = Context.environment["FORGE_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)]

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
        .testTarget(
            name: "ForgeEtcdTests",
            dependencies: [
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeStorageTesting", package: "ForgeStorage"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ],
            swiftSettings: strict + [
                .swiftLanguageMode(.v6),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("InternalImportsByDefault"),
                .enableUpcomingFeature("MemberImportVisibility"),
            ])
    ]
)
