// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "Stress",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "ForgeStorage", path: "..")],
    targets: [
        .target(name: "CStress"),
        .executableTarget(
            name: "stress",
            dependencies: [
                "CStress", .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ForgeFileStore", package: "ForgeStorage"),
                .product(name: "ForgeFileSystem", package: "ForgeStorage"),
            ],
            swiftSettings: settings),
    ]
)
