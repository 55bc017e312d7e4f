// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "notes",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(url: "https://github.com/forgestorage/ForgeStorage", branch: "main")
    ],
    targets: [
        .executableTarget(
            name: "notes", dependencies: [.product(name: "ForgeStorage", package: "ForgeStorage")]),
        .testTarget(name: "NotesTests", dependencies: ["notes"]),
    ]
)
