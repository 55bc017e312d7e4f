import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("The total size of a store on the disk")
struct TotalSizeTests {
    private let directory: TemporaryDirectory
    private let root: URL
    private let store: DiskFileStore
    private let fileSystem = SystemFileSystem()

    init() async throws {
        directory = try TemporaryDirectory()
        root = directory.url("store")
        store = DiskFileStore(root: root)
        for number in 0..<10 { try await store.save(Data(count: 100), to: "d\(number)/e/f") }
        try await store.save(Data(count: 7), to: "f")
    }

    private func age(_ key: String, to time: FileTime = FileTime(seconds: 1_000_000_000)) throws {
        try fileSystem.setTimes(
            accessed: nil, modified: time,
            of: .path(POSIXPath(root.path + "/" + key), at: .workingDirectory, followsSymbolicLinks: false))
    }

    private func ageDirectories() throws {
        for number in 0..<10 {
            try age("d\(number)/e")
            try age("d\(number)")
        }
        try age("")
    }

    @Test(
        "only directories that have changed are listed again, where each change has a time of its own",
        arguments: InMemoryFileSystem.Profile.allCases)
    func listsChangedDirectories(_ profile: InMemoryFileSystem.Profile) async throws {
        let reads = CallCounter()
        let memory = InMemoryFileSystem(options: .init(profile: profile))
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .list { try reads.countOrFail(.list, nil, .ioError) }
        }
        let url = URL(filePath: "/store")
        let writer = DiskFileStore(root: url, fileSystem: memory)
        for number in 0..<10 { try await writer.save(Data(count: 100), to: "d\(number)/e/f") }
        let store = DiskFileStore(root: url, fileSystem: counting)
        #expect(try await store.totalSize() == 1_000)
        let before = reads.count
        #expect(try await store.totalSize() == 1_000)
        #expect(reads.count == before)
        try await writer.save(Data(count: 50), to: "d3/e/g")
        #expect(try await store.totalSize() == 1_050)
        #expect(reads.count == before + 1)
    }

    @Test("changes by other stores and programs are counted", arguments: [false, true])
    func countsAllChanges(isAged: Bool) async throws {
        if isAged { try ageDirectories() }
        #expect(try await store.totalSize() == 1_007)
        let other = DiskFileStore(root: root)
        for number in 0..<10 {
            try await other.save(Data(count: 200), to: "d\(number)/e/f")
            #expect(try await store.totalSize() == 1_007 + 100 * (number + 1))
        }
        if isAged { try ageDirectories() }
        #expect(try await store.totalSize() == 2_007)
        try FileManager.default.moveItem(at: root.appending(path: "d1/e"), to: root.appending(path: "d2/x"))
        #expect(try await store.totalSize() == 2_007)
        try await other.deleteDirectory("d2")
        try await other.delete("f")
        #expect(try await store.totalSize() == 1_600)
        try await other.deleteAll()
        #expect(try await store.totalSize() == 0)
        try await other.save(Data(count: 5), to: "d1/e/f")
        #expect(try await store.totalSize() == 5)
    }

    @Test("a change that the clock of the file system cannot tell from the one before is counted")
    func coarseClock() async throws {
        var recent = try #require(fileSystem.preciseTime)
        recent.seconds -= 1
        try ageDirectories()
        try age("d1/e", to: recent)
        #expect(try await store.totalSize() == 1_007)
        try await store.save(Data(count: 1), to: "d1/e/g")
        try age("d1/e", to: recent)
        #expect(try await store.totalSize() == 1_008)
    }

    @Test("a change whose modification time was restored, as rsync and tar do, is counted")
    func restoredTime() async throws {
        try ageDirectories()
        #expect(try await store.totalSize() == 1_007)
        try await store.save(Data(count: 1), to: "d1/e/g")
        try age("d1/e")
        #expect(try await store.totalSize() == 1_008)
    }

    @Test("a directory that replaces another with the same time is listed")
    func replacedDirectory() async throws {
        try ageDirectories()
        #expect(try await store.totalSize() == 1_007)
        try await store.save(Data(count: 3), to: "new/f")
        try await store.deleteDirectory("d5/e")
        try FileManager.default.moveItem(at: root.appending(path: "new"), to: root.appending(path: "d5/e"))
        try ageDirectories()
        #expect(try await store.totalSize() == 910)
    }

    @Test("the files of another store below the root are neither counted nor listed")
    func nestedStore() async throws {
        try await DiskFileStore(root: root.appending(path: "d0/inner")).save(Data(count: 1_000), to: "g/h")
        #expect(try await store.totalSize() == 1_007)
        for (prefix, expected) in [("d0/", ["d0/e", "d0/e/f", "d0/inner"]), ("d0/inner/", [])] {
            var keys: [String] = []
            for try await file in store.files(in: "", FileListingOptions(sorted: true, prefix: prefix)) {
                keys.append(file.key)
            }
            #expect(keys == expected)
        }
    }
}
