// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Notes",
    platforms: [.macOS(.v15)],
    dependencies: [
        // A tool of your own names the repository's URL here.
        .package(name: "ForgeStorage", path: "../.."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    ],
    targets: [
        .executableTarget(
            name: "notes",
            dependencies: [
                .product(name: "ForgeKVStore", package: "ForgeStorage"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Sources/Notes"),
        .testTarget(
            name: "NotesTests",
            dependencies: ["notes", .product(name: "ForgeKVStore", package: "ForgeStorage")]),
    ]
)
