// swift-tools-version: 6.2
import PackageDescription

/// `FORGE_STRICT=1` makes warnings errors.
let strict: [SwiftSetting] = Context.environment["FORGE_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)]

/// `FORGE_LAB=1` enables all traits, and adds what only maintainers build: the tools in `Lab/`, and the examples.
let isLab = Context.environment["FORGE_LAB"] != nil

/// `FORGE_FUZZ=1` adds the fuzzer of parsers, which links with `--sanitize=fuzzer` alone.
let isFuzz = Context.environment["FORGE_FUZZ"] != nil

let settings =
    strict + [.swiftLanguageMode(.v6)]
    + ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"].map { .enableUpcomingFeature($0) }
    // Of two options `--sanitize`, the compiler takes the last; the code of this package needs both sanitizers.
    + (isFuzz ? [.unsafeFlags(["-sanitize=fuzzer,address"])] : [])

/// What ships is compiled in strict memory safety mode (SE-0458).
func memorySafety(_ root: String) -> [SwiftSetting] { root == "Sources" ? [.strictMemorySafety()] : [] }

func github(_ name: String, _ version: Version) -> Package.Dependency {
    .package(url: "https://github.com/\(name)", from: version)
}

/// Products by their packages. With traits: an app that enables none of these neither resolves nor builds them.
func products(_ names: KeyValuePairs<String, [String]>, traits: Set<String>? = nil) -> [Target.Dependency] {
    names.flatMap { package, names in
        names.map { .product(name: $0, package: package, condition: traits.flatMap { .when(traits: $0) }) }
    }
}

func library(
    _ name: String, _ dependencies: [Target.Dependency] = [], in root: String = "Sources", resources: [Resource] = []
) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "\(root)/\(name)", resources: resources,
        swiftSettings: settings + memorySafety(root))
}

func tool(_ name: String, _ dependencies: [Target.Dependency], in root: String = "Sources") -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, path: "\(root)/\(name)",
        swiftSettings: settings + memorySafety(root))
}

func tests(
    _ name: String, _ dependencies: [Target.Dependency], in root: String = "Tests", resources: [Resource] = []
) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "\(root)/\(name)", resources: resources, swiftSettings: settings)
}

let system = products(["swift-system": ["SystemPackage"]])
let logging = products(["swift-log": ["Logging"]])
let crypto = products(["swift-crypto": ["Crypto"]])
let arguments = products(["swift-argument-parser": ["ArgumentParser"]])
let client: KeyValuePairs = [
    "async-http-client": ["AsyncHTTPClient"], "swift-distributed-tracing": ["Tracing"], "swift-metrics": ["Metrics"],
    "swift-nio": ["NIOCore", "NIOFoundationCompat", "NIOHTTP1", "NIOPosix"], "swift-nio-ssl": ["NIOSSL"],
]
let http = products(client, traits: ["Etcd", "S3"])
let metrics = products(["swift-metrics": ["MetricsTestKit"]], traits: ["Etcd", "S3"])
let signing = products(["swift-crypto": ["Crypto"]], traits: ["S3"])
let hummingbird: KeyValuePairs = [
    "hummingbird": ["Hummingbird", "HummingbirdCore"], "swift-http-types": ["HTTPTypes"], "swift-nio": ["NIOCore"],
    "swift-nio-extras": ["NIOHTTPTypes"], "swift-service-lifecycle": ["ServiceLifecycle"],
]
let page = products(hummingbird, traits: ["Inspector"])
let lifecycle = products(["swift-service-lifecycle": ["ServiceLifecycleTestKit"]])
let files = ["ForgeFileSystem"] + system
let stores = files + ["ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", "ForgeStorage"] + crypto + logging
let testing = stores + ["ForgeStorageTesting", "ForgeCrashTesting", "ForgeTestTraits", "TestDepth", "ChildProcesses"]
let onServers = testing + ["ForgeEtcd", "ForgeS3", "EtcdServers", "S3Servers", "ServerTestSupport", "Histories"] + http

let privacy = [Resource.copy("PrivacyInfo.xcprivacy")]
let libraries = [
    library("CForgeFileSystem"), library("CForgeKVStore"), library("ForgeCoding"),
    library("ForgeFileSystem", ["CForgeFileSystem"] + system, resources: privacy),
    library(
        "ForgeKVStore", ["CForgeKVStore", "CForgeFileSystem", "ForgeCoding"] + files + logging, resources: privacy),
    library("ForgeFileStore", files), library("ForgeCrypt", ["ForgeCoding", "CForgeFileSystem"] + files + crypto),
    library("ForgeStorage", ["ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt"] + files + crypto),
    // The stores on servers, and what they share: empty without their traits.
    library("ForgeHTTP", http),
    library("ForgeEtcd", ["ForgeKVStore", "ForgeHTTP"] + files + logging + http),
    library("ForgeS3", ["ForgeFileStore", "ForgeHTTP"] + files + logging + http + signing),
    library("ForgeStorageTesting", stores), library("ForgeCrashTesting", ["ForgeStorageTesting"] + stores),
    // Apart, because it links Swift Testing, which only tests may do.
    library("ForgeTestTraits", ["ForgeKVStore"]),
    library(
        "ForgeInspector", stores + page,
        resources: [.embedInCode("Page/index.html"), .embedInCode("Page/app.js"), .embedInCode("Page/style.css")]),
    library("ForgeCommands", ["ForgeEtcd", "ForgeS3", "ForgeInspector"] + stores + arguments),
    tool("forge", ["ForgeCommands"] + arguments),
]

let suites = [
    library("TestDepth", in: "Tests"), library("ChildProcesses", in: "Tests"),
    library("StoreCrashes", ["ForgeCrashTesting"] + stores, in: "Tests"),
    tool("InspectorFixture", stores, in: "Tests"), library("ServerTestSupport", http + metrics, in: "Tests"),
    library("EtcdServers", ["ServerTestSupport", "ChildProcesses"], in: "Tests"),
    library("Histories", ["ForgeKVStore"], in: "Tests"),
    library("S3Servers", ["ServerTestSupport", "ChildProcesses", "ForgeS3"], in: "Tests"),
    tests("ForgeFileSystemTests", testing), tests("ForgeKVStoreTests", testing), tests("ForgeFileStoreTests", testing),
    tests("ForgeCryptTests", testing), tests("ForgeStorageTests", testing), tests("KillTests", testing),
    tests("ForgeStorageTestingTests", testing), tests("ForgeCrashTestingTests", testing + ["StoreCrashes"]),
    tests("ForgeCodingTests", testing, resources: [.copy("Golden")]), tests("HistoriesTests", testing + ["Histories"]),
    tests("ForgeInspectorTests", testing + ["ForgeInspector"]), tests("ForgeS3Tests", onServers + metrics),
    tests("ForgeCommandsServerTests", onServers + ["forge"]), tests("ForgeEtcdTests", onServers + metrics),
    tests("ForgeCommandsTests", testing + ["ForgeCommands", "forge"] + arguments, resources: [.copy("Help")]),
    // The tests that the documents print. One reads an array to which a task has appended: an error in language mode 6.
    .testTarget(name: "DocumentTests", dependencies: stores, swiftSettings: strict + [.swiftLanguageMode(.v5)]),
]

/// What an app sees of the toolkit, for the examples; their own packages build them as an app does.
let app = ["ForgeEtcd", "ForgeS3", "ForgeStorageTesting"] + stores + arguments + page + lifecycle

let lab: [Target] = [
    tool("forge-lab", testing + ["StoreCrashes"] + arguments, in: "Lab/Sources"),
    library("FileSystemMutants", testing, in: "Lab/Sources"), tool("s3-bench", onServers, in: "Lab/Sources"),
    tool("etcd-faults", onServers, in: "Lab/Sources"), tool("server-stress", onServers, in: "Lab/Sources"),
    tool("etcd-bench", onServers, in: "Lab/Sources"), tool("mirror-bench", onServers, in: "Lab/Sources"),
    tests("FileSystemMutantsTests", testing + ["FileSystemMutants"], in: "Lab/Tests"),
    tests("ForgeLabTests", testing + ["forge-lab"], in: "Lab/Tests"), tests("FleetTests", onServers + ["FleetServer"]),
    .target(name: "TaskFlow", dependencies: app, path: "Examples/TaskFlow/Sources", packageAccess: false),
    .executableTarget(name: "notes", dependencies: app, path: "Examples/Notes/Sources", packageAccess: false),
    .executableTarget(name: "NotesServer", dependencies: app, path: "Examples/Server/Sources", packageAccess: false),
    .executableTarget(name: "FleetServer", dependencies: app, path: "Examples/Fleet/Sources", packageAccess: false),
    .testTarget(name: "NotesTests", dependencies: ["notes"], path: "Examples/Notes/Tests", packageAccess: false),
    .testTarget(
        name: "TaskFlowTests", dependencies: ["TaskFlow"], path: "Examples/TaskFlow/Tests", packageAccess: false),
    .testTarget(
        name: "NotesServerTests", dependencies: ["NotesServer"], path: "Examples/Server/Tests", packageAccess: false),
]

// lld: gold fails on this executable with an internal error about its debugging information.
let fuzzer = Target.executableTarget(
    name: "forge-fuzz", dependencies: stores + ["ForgeCommands", "ForgeEtcd", "ForgeS3"],
    path: "Lab/Sources/forge-fuzz", swiftSettings: settings,
    linkerSettings: [.unsafeFlags(["-use-ld=lld"], .when(platforms: [.linux]))])

let package = Package(
    name: "ForgeStorage",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        "ForgeStorage", "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeEtcd", "ForgeFileStore", "ForgeS3",
        "ForgeCrypt", "ForgeStorageTesting", "ForgeCrashTesting", "ForgeTestTraits", "ForgeInspector",
    ].map { .library(name: $0, targets: [$0]) } + [.executable(name: "forge", targets: ["forge"])],
    traits: [
        .trait(name: "Etcd", description: "The key-value store in etcd, over SwiftNIO."),
        .trait(name: "Inspector", description: "The page that shows stores: `forge serve` and its server."),
        .trait(name: "S3", description: "The file store in S3 and compatible servers, over SwiftNIO."),
        .default(enabledTraits: isLab ? ["Etcd", "Inspector", "S3"] : []),
    ],
    dependencies: [
        github("apple/swift-system", "1.8.1"), github("apple/swift-log", "1.16.2"),
        github("apple/swift-crypto", "4.5.2"), github("apple/swift-argument-parser", "1.8.2"),
        // Only an app with traits resolves these.
        github("swift-server/async-http-client", "1.37.0"), github("apple/swift-distributed-tracing", "1.7.3"),
        github("apple/swift-http-types", "1.8.0"), github("apple/swift-metrics", "2.13.0"),
        github("apple/swift-nio", "2.101.2"), github("apple/swift-nio-extras", "1.35.2"),
        github("apple/swift-nio-ssl", "2.37.6"), github("swift-server/swift-service-lifecycle", "2.13.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: ["FullFoundation"]),
    ],
    targets: libraries + suites + (isLab ? lab : []) + (isFuzz ? [fuzzer] : [])
)
