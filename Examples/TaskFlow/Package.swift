// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "TaskFlow",
    platforms: [.macOS(.v15), .iOS(.v18)],
    dependencies: [
        // An app of your own names the repository's URL here.
        .package(name: "ForgeStorage", path: "../..")
    ],
    targets: [
        .target(
            name: "TaskFlow", dependencies: [.product(name: "ForgeStorage", package: "ForgeStorage")]),
        .testTarget(
            name: "TaskFlowTests",
            dependencies: ["TaskFlow", .product(name: "ForgeStorage", package: "ForgeStorage")]),
    ]
)
