// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Fleet",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "fleet-server", targets: ["FleetServer"])],
    dependencies: [
        // A server of your own names the repository's URL here. Only the root package may name the traits.
        .package(name: "ForgeStorage", path: "../..", traits: ["Etcd", "S3"]),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    ],
    targets: [
        .executableTarget(
            name: "FleetServer",
            dependencies: [
                .product(name: "ForgeStorage", package: "ForgeStorage"),
                .product(name: "ForgeEtcd", package: "ForgeStorage"),
                .product(name: "ForgeS3", package: "ForgeStorage"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Hummingbird", package: "hummingbird"),
            ])
    ]
)
