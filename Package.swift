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

let system = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

/// What only the traits of stores on servers resolve and build.
let servers = TargetDependencyCondition.when(traits: ["Etcd", "S3"])
let http: [Target.Dependency] = [
    .product(name: "AsyncHTTPClient", package: "async-http-client", condition: servers),
    .product(name: "NIOCore", package: "swift-nio", condition: servers),
    .product(name: "NIOFoundationCompat", package: "swift-nio", condition: servers),
    .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
    .product(name: "NIOPosix", package: "swift-nio", condition: servers),
    .product(name: "NIOSSL", package: "swift-nio-ssl", condition: servers),
    .product(name: "Metrics", package: "swift-metrics", condition: servers),
    .product(name: "Tracing", package: "swift-distributed-tracing", condition: servers),
]

/// `FORGE_DEEP=1` adds the maintainers' tools and their tests, and raises the limits of all other tests.
let isDeep = Context.environment["FORGE_DEEP"] != nil

let lab: [Target] = [
    .target(
        name: "FileSystemMutants", dependencies: ["ForgeFileSystem", "ForgeStorageTesting", system],
        path: "Lab/Sources/FileSystemMutants", swiftSettings: settings),
    .executableTarget(
        name: "forge-lab",
        dependencies: [
            "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeStorage", "ForgeStorageTesting",
            "ForgeCrashTesting", "StoreCrashes",
            system, arguments,
        ],
        path: "Lab/Sources/forge-lab", swiftSettings: settings),
    .testTarget(
        name: "FileSystemMutantsTests", dependencies: ["FileSystemMutants", "TestDepth"],
        path: "Lab/Tests/FileSystemMutantsTests", swiftSettings: settings),
    .testTarget(
        name: "ForgeLabTests",
        dependencies: ["forge-lab", "ForgeFileSystem", "ForgeStorageTesting", "TestDepth", system],
        path: "Lab/Tests/ForgeLabTests", swiftSettings: settings),
]

/// Hummingbird, which only the trait `Inspector` adds: without it, no package that uses this one builds a server.
let hummingbird = Target.Dependency.product(
    name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Inspector"]))

let package = Package(
    name: "ForgeStorage",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "ForgeStorage", targets: ["ForgeStorage"]),
        .library(name: "ForgeFileSystem", targets: ["ForgeFileSystem"]),
        .library(name: "ForgeCoding", targets: ["ForgeCoding"]),
        .library(name: "ForgeKVStore", targets: ["ForgeKVStore"]),
        .library(name: "ForgeEtcd", targets: ["ForgeEtcd"]),
        .library(name: "ForgeFileStore", targets: ["ForgeFileStore"]),
        .library(name: "ForgeS3", targets: ["ForgeS3"]),
        .library(name: "ForgeCrypt", targets: ["ForgeCrypt"]),
        .library(name: "ForgeStorageTesting", targets: ["ForgeStorageTesting"]),
        .library(name: "ForgeCrashTesting", targets: ["ForgeCrashTesting"]),
        .library(name: "ForgeTestTraits", targets: ["ForgeTestTraits"]),
        .library(name: "ForgeInspector", targets: ["ForgeInspector"]),
        .executable(name: "forge", targets: ["forge"]),
    ],
    traits: [
        .trait(name: "Etcd", description: "The key-value store in etcd, over SwiftNIO."),
        .trait(name: "Inspector", description: "The page that shows stores: `forge serve` and its server."),
        .trait(name: "S3", description: "The file store in S3 and compatible servers, over SwiftNIO."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .target(name: "CForgeFileSystem"),
        .target(
            name: "ForgeFileSystem", dependencies: ["CForgeFileSystem", system],
            resources: [.copy("PrivacyInfo.xcprivacy")], swiftSettings: settings),
        .target(name: "ForgeCoding", swiftSettings: settings + [.strictMemorySafety()]),
        .target(name: "CForgeKVStore"),
        .target(
            name: "ForgeKVStore",
            dependencies: ["CForgeKVStore", "CForgeFileSystem", "ForgeFileSystem", "ForgeCoding", system, logging],
            resources: [.copy("PrivacyInfo.xcprivacy")], swiftSettings: settings),
        // What the stores on servers share; empty without their traits.
        .target(name: "ForgeHTTP", dependencies: http, swiftSettings: settings),
        .target(
            name: "ForgeEtcd", dependencies: ["ForgeKVStore", "ForgeFileSystem", "ForgeHTTP", logging] + http,
            swiftSettings: settings),
        .target(name: "ForgeFileStore", dependencies: ["ForgeFileSystem", system], swiftSettings: settings),
        .target(
            name: "ForgeS3",
            dependencies: ["ForgeFileStore", "ForgeFileSystem", "ForgeHTTP", system, logging, crypto] + http,
            swiftSettings: settings),
        .target(
            name: "ForgeCrypt", dependencies: ["ForgeFileSystem", "ForgeCoding", system, crypto],
            swiftSettings: settings),
        .target(
            name: "ForgeStorage",
            dependencies: [
                "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", system, crypto,
            ],
            swiftSettings: settings),
        .target(
            name: "ForgeStorageTesting",
            dependencies: [
                "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", "ForgeStorage",
                system, logging,
            ],
            swiftSettings: settings),
        .target(
            name: "ForgeCrashTesting",
            dependencies: [
                "ForgeStorageTesting", "ForgeFileSystem", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt",
                "ForgeStorage",
                system,
            ],
            swiftSettings: settings),
        // Apart, because it links Swift Testing, which only tests may do.
        .target(name: "ForgeTestTraits", dependencies: ["ForgeKVStore"], swiftSettings: settings),
        .target(
            name: "StoreCrashes",
            dependencies: [
                "ForgeCrashTesting", "ForgeStorageTesting", "ForgeFileSystem", "ForgeKVStore", "ForgeFileStore",
                "ForgeCrypt",
                "ForgeStorage", system,
            ],
            path: "Tests/StoreCrashes", swiftSettings: settings),
        .target(
            name: "ForgeInspector",
            dependencies: ["ForgeStorage", "ForgeCoding", system, crypto, logging, hummingbird],
            resources: [.embedInCode("Page/index.html"), .embedInCode("Page/app.js"), .embedInCode("Page/style.css")],
            swiftSettings: settings),
        .target(
            name: "ForgeCommands",
            dependencies: [
                "ForgeStorage", "ForgeCoding", "ForgeEtcd", "ForgeS3", "ForgeInspector", system, crypto, logging,
                arguments,
            ],
            swiftSettings: settings),
        .executableTarget(name: "forge", dependencies: ["ForgeCommands", arguments], swiftSettings: settings),
        .testTarget(
            name: "ForgeFileSystemTests", dependencies: ["ForgeFileSystem", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeStorageTestingTests",
            dependencies: [
                "TestDepth", "ForgeStorageTesting", "ForgeFileSystem", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt",
                "ForgeStorage", system, crypto, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeCrashTestingTests",
            dependencies: [
                "TestDepth", "ForgeCrashTesting", "ForgeStorageTesting", "StoreCrashes", "ForgeFileSystem",
                "ForgeKVStore",
                "ForgeFileStore", "ForgeCrypt", "ForgeStorage", system, crypto, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeCodingTests", dependencies: ["TestDepth", "ForgeCoding"], resources: [.copy("Golden")],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeKVStoreTests",
            dependencies: [
                "TestDepth", "ForgeKVStore", "ForgeCoding", "ForgeFileSystem", "ForgeCrashTesting",
                "ForgeStorageTesting", "ForgeTestTraits", system, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeFileStoreTests",
            dependencies: ["TestDepth", "ForgeFileStore", "ForgeFileSystem", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeCryptTests",
            dependencies: [
                "TestDepth", "ForgeCrypt", "ForgeCoding", "ForgeFileSystem", "ForgeCrashTesting", "ForgeStorageTesting",
                system, crypto,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeStorageTests", dependencies: ["TestDepth", "ForgeStorage", "ForgeStorageTesting", system],
            swiftSettings: settings),
        .testTarget(
            name: "ForgeCommandsTests",
            dependencies: ["ForgeCommands", "ForgeStorage", "forge", "TestDepth", system, crypto, logging, arguments],
            exclude: ["Help"],
            swiftSettings: settings),
        // Makes the stores that the tests of the page show, and writes to them from another process.
        .executableTarget(
            name: "InspectorFixture", dependencies: ["ForgeStorage", crypto, system], path: "Tests/InspectorFixture",
            swiftSettings: settings),
        .testTarget(
            name: "ForgeInspectorTests",
            dependencies: [
                "ForgeInspector", "ForgeStorage", "ForgeCoding", "TestDepth", system, crypto, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "KillTests", dependencies: ["ForgeStorage", "ForgeFileSystem", "TestDepth", system],
            swiftSettings: settings),
        // The tests that the documents print, unchanged. One of them reads, after a task, an array that the task
        // appends to, which language mode 6 refuses.
        .testTarget(
            name: "DocumentTests",
            dependencies: [
                "ForgeStorage", "ForgeFileSystem", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt",
            ],
            swiftSettings: strict + [.swiftLanguageMode(.v5)]),
        .target(name: "TestDepth", path: "Tests/TestDepth", swiftSettings: settings),
    ] + (isDeep ? lab : [])
)
