// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

let package = Package(
    name: "ForgeStorage",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "ForgeFileSystem", targets: ["ForgeFileSystem"]),
        .library(name: "ForgeCoding", targets: ["ForgeCoding"]),
        .library(name: "ForgeKVStore", targets: ["ForgeKVStore"]),
        .library(name: "ForgeFileStore", targets: ["ForgeFileStore"]),
        .library(name: "ForgeCrypt", targets: ["ForgeCrypt"]),
        .library(name: "ForgeStorage", targets: ["ForgeStorage"]),
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
        .target(name: "ForgeCoding", swiftSettings: settings),
        .target(name: "CForgeKVStore"),
        .target(
            name: "ForgeKVStore", dependencies: ["CForgeKVStore", "ForgeFileSystem", "ForgeCoding", system, logging],
            swiftSettings: settings),
        .target(name: "ForgeFileStore", dependencies: ["ForgeFileSystem", system], swiftSettings: settings),
        .target(
            name: "ForgeCrypt", dependencies: ["ForgeCoding", "ForgeFileSystem", crypto, system],
            swiftSettings: settings),
        .target(
            name: "ForgeStorage",
            dependencies: [
                "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", system, crypto,
            ],
            swiftSettings: settings),
        .target(
            name: "ForgeStorageTesting",
            dependencies: ["ForgeFileSystem", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", "ForgeStorage", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeFileSystemTests", dependencies: ["ForgeFileSystem", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(name: "ForgeCodingTests", dependencies: ["ForgeCoding"], swiftSettings: settings),
        .testTarget(
            name: "ForgeKVStoreTests",
            dependencies: ["ForgeKVStore", "ForgeFileSystem", "ForgeCoding", "ForgeStorageTesting", system, logging],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeFileStoreTests", dependencies: ["ForgeFileStore", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeStorageTests",
            dependencies: [
                "ForgeFileSystem", "ForgeKVStore", "ForgeCrypt", "ForgeStorage", "ForgeStorageTesting", crypto, system,
            ],
            swiftSettings: settings),
        // The code of the documents as it is printed. One of its tests appends to a local array in a Task, which
        // language mode 6 refuses, and it writes protocol types without `any`.
        .testTarget(
            name: "DocumentTests", dependencies: ["ForgeStorage"], swiftSettings: [.swiftLanguageMode(.v5)]),
    ]
)
