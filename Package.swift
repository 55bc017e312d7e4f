// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")

let package = Package(
    name: "ForgeStorage",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "ForgeFileSystem", targets: ["ForgeFileSystem"]),
        .library(name: "ForgeCoding", targets: ["ForgeCoding"]),
        .library(name: "ForgeStorageTesting", targets: ["ForgeStorageTesting"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"),
    ],
    targets: [
        .target(name: "CForgeFileSystem"),
        .target(name: "ForgeFileSystem", dependencies: ["CForgeFileSystem", system], swiftSettings: settings),
        .target(name: "ForgeStorageTesting", dependencies: ["ForgeFileSystem", system], swiftSettings: settings),
        .target(name: "ForgeCoding", swiftSettings: settings),
        .testTarget(name: "ForgeCodingTests", dependencies: ["ForgeCoding"], swiftSettings: settings),
        .testTarget(
            name: "ForgeFileSystemTests", dependencies: ["ForgeFileSystem", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeStorageTestingTests", dependencies: ["ForgeFileSystem", "ForgeStorageTesting", system],
            swiftSettings: settings),
    ]
)
