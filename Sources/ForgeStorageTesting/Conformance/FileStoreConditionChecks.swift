public import ForgeFileStore
import Foundation

/// A file store, initially empty, and the conditions that checks can bring it into.
///
/// ```swift
/// import ForgeFileStore
/// import ForgeFileSystem
///
/// let report = await ConformanceSuite.fileStoreConditions.run(on: "MyStore", having: [.secondStore]) {
///     let fileSystem = InMemoryFileSystem()
///     let directory = URL(filePath: "/files")
///     var subject = FileStoreUnderTest(DiskFileStore(root: directory, fileSystem: fileSystem))
///     subject.other = DiskFileStore(root: directory, fileSystem: fileSystem.process())
///     return subject
/// }
/// ```
///
/// A check whose condition is missing is reported as not applicable, or as violated where its capability was declared.
public struct FileStoreUnderTest: Sendable {
    /// The store.
    public var store: any FileStoring

    /// Another store of the same files, as another object or process opens it, for the checks that need
    /// ``ConformanceCapability/secondStore``.
    public var other: (any FileStoring)?

    /// Leaves less than a mebibyte free on the device, for the checks that need ``ConformanceCapability/limitedSpace``.
    public var fillDevice: (@Sendable () async throws -> Void)?

    /// Makes the device read-only, for the check that needs ``ConformanceCapability/readOnlyDevice``.
    public var makeReadOnly: (@Sendable () async throws -> Void)?

    /// Makes reads and writes of the device fail, or lets them succeed again, for the checks that need
    /// ``ConformanceCapability/failingDevice``.
    public var setFailing: (@Sendable (_ fails: Bool) async throws -> Void)?

    /// The maximum size of a file that the store loads, for the check that needs ``ConformanceCapability/loadLimit``.
    public var maximumLoadSizeInBytes: Int?

    /// Creates an empty file with a name of these bytes in the root of the store, as another program does, for the check
    /// that needs ``ConformanceCapability/foreignFiles``.
    public var plant: (@Sendable (_ name: [UInt8]) async throws -> Void)?

    /// Creates a subject without conditions.
    public init(_ store: any FileStoring) {
        self.store = store
    }
}

extension ConformanceCapability {
    /// There is a second store of the same content (``FileStoreUnderTest/other``, ``KeyValueStoreUnderTest/other``).
    public static let secondStore = ConformanceCapability("a second store of the same content")

    /// The device can be made to fail (``FileStoreUnderTest/setFailing``).
    public static let failingDevice = ConformanceCapability("a device that can be made to fail")

    /// Other programs can create files in the root of the store (``FileStoreUnderTest/plant``).
    public static let foreignFiles = ConformanceCapability("files of other programs in its root")

    /// The store limits the size of the files that it loads (``FileStoreUnderTest/maximumLoadSizeInBytes``).
    public static let loadLimit = ConformanceCapability("a limit of the size of loaded files")
}

extension ConformanceSuite where Subject == FileStoreUnderTest {
    /// The promises of a file store on a full, read-only or failing device, at its limit, and beside a second store of
    /// the same files and other programs. Each check needs a capability.
    public static var fileStoreConditions: Self {
        Self("file store under conditions", ConformanceChecks.fileStoreConditions)
    }
}

extension ConformanceChecks {
    /// The promises of a file store under conditions that the subject provides. Each check needs a new, empty store.
    public static let fileStoreConditions: [ConformanceCheck<FileStoreUnderTest>] =
        filesOnFullDevices + filesOnReadOnlyDevices + filesOnFailingDevices + filesAtLimits + filesOfTwoStores
        + filesOfOtherPrograms

    private typealias Check = ConformanceCheck<FileStoreUnderTest>

    private static let large = Data(count: 2 << 20)

    private static func text(_ text: String) -> Data { Data(text.utf8) }

    // MARK: Full devices

    private static let filesOnFullDevices: [Check] = [
        Check("a save that fails on a full device keeps the old content and leaves no file", needs: [.limitedSpace]) {
            subject in
            let (store, fill) = (subject.store, try condition(subject.fillDevice, "fillDevice"))
            try await store.save(text("old"), to: "d/a")
            try await fill()
            for key in ["d/a", "d/b"] {
                let error = try await expectCode(.noSpace, "save(2 MiB, to: \(key)) on a full device") {
                    try await store.save(large, to: key)
                }
                try expectEqual(error.key, key, "the key of \(error)")
                try expectEqual(error.operation, .save, "the operation of \(error)")
            }
            try expectEqual(try await store.load("d/a"), text("old"), "load(d/a)")
            try expectEqual(try await store.list(in: "d").map(\.key), ["d/a"], "list(in: d)")
            try expectEqual(try await store.totalSize(), 3, "totalSize()")
        },
        Check("a file can be deleted on a full device, and its space used again", needs: [.limitedSpace]) { subject in
            let (store, fill) = (subject.store, try condition(subject.fillDevice, "fillDevice"))
            try await store.save(large, to: "large")
            try await fill()
            try await store.delete("large")
            try expect(!(await store.exists("large")), "exists(large) after delete(large): expected false")
            let content = Data.patterned(count: 1 << 20)
            try await store.save(content, to: "next")
            try expect(try await store.load("next") == content, "load(next): expected the mebibyte that was saved")
        },
        Check("the space that a failed save has taken is free again", needs: [.limitedSpace]) { subject in
            let (store, fill) = (subject.store, try condition(subject.fillDevice, "fillDevice"))
            try await store.save(large, to: "d/large")
            try await fill()
            try await store.delete("d/large")
            for key in ["d/huge", "huge"] {
                try await expectCode(.noSpace, "save(8 MiB, to: \(key)) where less than 3 MiB are free") {
                    try await store.save(Data(count: 8 << 20), to: key)
                }
            }
            let content = Data.patterned(count: 1 << 20)
            try await store.save(content, to: "d/next")
            try expect(try await store.load("d/next") == content, "load(d/next): expected the mebibyte that was saved")
        },
    ]

    // MARK: Read-only devices

    private static let filesOnReadOnlyDevices: [Check] = [
        Check("on a read-only device files are read, and every change is not permitted", needs: [.readOnlyDevice]) {
            subject in
            let store = subject.store
            try await store.save(text("content"), to: "d/a")
            try await condition(subject.makeReadOnly, "makeReadOnly")()
            let changes: [(call: String, change: @Sendable () async throws -> Void)] = [
                ("save(to: d/a)", { try await store.save(text("new"), to: "d/a") }),
                ("save(to: new)", { try await store.save(text("new"), to: "new") }),
                ("delete(d/a)", { try await store.delete("d/a") }),
                ("deleteDirectory(d)", { try await store.deleteDirectory("d") }),
                ("deleteAll()", { try await store.deleteAll() }),
            ]
            for (call, change) in changes {
                try await expectCode(.notPermitted, "\(call) on a read-only device", change)
                try expectEqual(try await store.load("d/a"), text("content"), "load(d/a) after \(call)")
                let keys = try await store.list(recursive: true).map(\.key)
                try expectEqual(keys, ["d", "d/a"], "list(recursive: true) after \(call)")
            }
        }
    ]

    // MARK: Failing devices

    private static let filesOnFailingDevices: [Check] = [
        Check("a file that cannot be read is an error other than notFound, and is kept", needs: [.failingDevice]) {
            subject in
            let (store, setFailing) = (subject.store, try condition(subject.setFailing, "setFailing"))
            try await store.save(text("content"), to: "d/a")
            try await setFailing(true)
            let error = try await expectError(FileStoreError.self, "load(d/a) on a failing device") {
                try await store.load("d/a")
            }
            try expect(error.code != .notFound, "load(d/a) on a failing device: expected another code, got \(error)")
            try expectEqual(error.key, "d/a", "the key of \(error)")
            do {
                // A list may not need the part of the device that fails.
                try expectEqual(try await store.list(in: "d").map(\.key), ["d/a"], "list(in: d) on a failing device")
            } catch let error as FileStoreError {
                try expect(error.code != .notFound, "list(in: d) on a failing device: expected another code: \(error)")
            }
            try await setFailing(false)
            try expectEqual(try await store.load("d/a"), text("content"), "load(d/a) after the failures")
        },
        Check("a save that fails keeps the old content and leaves no file", needs: [.failingDevice]) { subject in
            let (store, setFailing) = (subject.store, try condition(subject.setFailing, "setFailing"))
            try await store.save(text("old"), to: "d/a")
            for key in ["d/a", "d/b"] {
                try await setFailing(true)
                try await expectError(FileStoreError.self, "save(to: \(key)) on a failing device") {
                    try await store.save(text("new"), to: key)
                }
                try await setFailing(false)
                try expectEqual(try await store.load("d/a"), text("old"), "load(d/a) after a failed save(to: \(key))")
                let keys = try await store.list(in: "d").map(\.key)
                try expectEqual(keys, ["d/a"], "list(in: d) after a failed save(to: \(key))")
            }
            try await store.save(text("new"), to: "d/a")
            try expectEqual(try await store.load("d/a"), text("new"), "load(d/a) after a save that succeeds")
        },
    ]

    // MARK: Limits

    private static let filesAtLimits: [Check] = [
        Check("a file above the limit of loads is too large to load, and is kept", needs: [.loadLimit]) { subject in
            let store = subject.store
            let limit = try condition(subject.maximumLoadSizeInBytes, "maximumLoadSizeInBytes")
            let (largest, larger) = (Data.patterned(count: limit), Data.patterned(count: limit + 1))
            try await store.save(largest, to: "a")
            try expect(try await store.load("a") == largest, "load(a): expected the \(limit) bytes that were saved")
            try await store.save(larger, to: "a")
            let error = try await expectCode(.tooLarge, "load(a) of \(limit + 1) bytes") { try await store.load("a") }
            try expectEqual(error.key, "a", "the key of \(error)")
            try expectEqual(try await store.size("a"), Int64(limit) + 1, "size(a) after it was too large to load")
            try await store.save(text("small"), to: "a")
            try expectEqual(try await store.load("a"), text("small"), "load(a) after a small save")
        }
    ]

    // MARK: Other programs

    private static let filesOfOtherPrograms: [Check] = [
        Check(
            "a file of another program is listed and loaded if its name is a key, and only then", needs: [.foreignFiles]
        ) {
            subject in
            let (store, plant) = (subject.store, try condition(subject.plant, "plant"))
            try await store.save(text("own"), to: "d/a")
            // The others are not UTF-8.
            for name in [Array("foreign".utf8), [0x66, 0xFF], [0xC3, 0x28]] { try await plant(name) }
            try expectEqual(try await store.list().map(\.key).sorted(), ["d", "foreign"], "list()")
            let keys = try await store.list(recursive: true).map(\.key).sorted()
            try expectEqual(keys, ["d", "d/a", "foreign"], "list(recursive: true)")
            try expectEqual(try await store.load("foreign"), Data(), "load(foreign)")
            try expectEqual(try await store.load("d/a"), text("own"), "load(d/a)")
        }
    ]

    // MARK: Two stores

    private static let filesOfTwoStores: [Check] = [
        Check("a second store of the same files sees every change when the call returns", needs: [.secondStore]) {
            subject in
            let (store, other) = (subject.store, try condition(subject.other, "other"))
            try expectEqual(try await other.list(recursive: true), [], "list(recursive: true) of the second store")
            for content in ["first", "the second", ""] {
                try await store.save(text(content), to: "d/a")
                try expectEqual(try await other.load("d/a"), text(content), "load(d/a) of the second store")
                try expectEqual(try await other.size("d/a"), Int64(content.utf8.count), "size(d/a) of the second store")
                let size = try await other.totalSize()
                try expectEqual(size, Int64(content.utf8.count), "totalSize() of the second store")
            }
            try await other.save(text("of the second"), to: "d/b")
            try expectEqual(try await store.load("d/b"), text("of the second"), "load(d/b) of the first store")
            let keys = Set(try await store.list(in: "d").map(\.key))
            try expectEqual(keys, ["d/a", "d/b"], "list(in: d) of the first store")
            try await other.delete("d/a")
            try await expectCode(.notFound, "load(d/a) of the first store") { try await store.load("d/a") }
            try await store.deleteDirectory("d")
            try expect(!(await other.exists("d/b")), "exists(d/b) of the second store: expected false")
            try await other.save(text("again"), to: "d/b")
            try expectEqual(try await store.load("d/b"), text("again"), "load(d/b) of the first store")
            try await store.deleteAll()
            let left = try await other.list(recursive: true).map(\.key)
            try expectEqual(left, [], "list(recursive: true) of the second store after deleteAll()")
        },
        Check("of saves through two stores that may not overwrite, exactly one succeeds", needs: [.secondStore]) {
            subject in
            let stores = [subject.store, try condition(subject.other, "other")]
            for round in 0..<20 {
                let winners = try await withThrowingTaskGroup(of: Int?.self) { group in
                    for (index, store) in stores.enumerated() {
                        group.addTask {
                            do {
                                try await store.save(Data([UInt8(index)]), to: "\(round)", overwrite: false)
                                return index
                            } catch let error as FileStoreError where error.code == .alreadyExists {
                                return nil
                            }
                        }
                    }
                    var winners: [Int] = []
                    for try await winner in group { if let winner { winners.append(winner) } }
                    return winners
                }
                try expectEqual(winners.count, 1, "how many stores have saved \(round)")
                for store in stores {
                    let content = try await store.load("\(round)")
                    try expectEqual(content, Data(winners.map { UInt8($0) }), "load(\(round))")
                }
            }
        },
    ]
}
