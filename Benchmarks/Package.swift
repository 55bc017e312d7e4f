// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "ForgeStorage", path: ".."),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
    ],
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
            name: "key-values",
            dependencies: ["Measuring", .product(name: "ForgeKVStore", package: "ForgeStorage")],
            swiftSettings: settings),
        .executableTarget(
            name: "mappings",
            dependencies: [
                "Measuring", .product(name: "ForgeFileSystem", package: "ForgeStorage"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: settings),
    ]
)
