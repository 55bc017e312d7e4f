import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("The linter of logs")
struct LinterTests {
    private let fileSystem: FaultingFileSystem

    init() throws {
        fileSystem = FaultingFileSystem(
            try memory {
                try $0.makeDirectories("/d")
                try $0.put("0123456789", at: "/d/old")
            })
    }

    private func kinds() -> [LintFinding.Kind] { fileSystem.log.lint().map(\.kind) }

    /// Writes a file with only some of the steps that safety requires.
    private func write(
        _ text: String, to path: POSIXPath, options: FileDescriptor.OpenOptions = [.create], synchronizing: SyncLevel?
    ) throws {
        let descriptor = try fileSystem.open(path, .writeOnly, options: options)
        try fileSystem.writeFully(descriptor, from: Array(text.utf8))
        if let synchronizing { try fileSystem.synchronize(descriptor, synchronizing) }
        try fileSystem.close(descriptor)
    }

    private func synchronizeDirectory(_ path: POSIXPath) throws {
        try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
            try fileSystem.synchronize(directory, .full)
        }
    }

    @Test("the file-system recipes have no findings")
    func recipes() throws {
        try fileSystem.replace("/d/old", with: "new")
        fileSystem.log.acknowledge("replaced")
        try fileSystem.replace("/d/new", with: "new")
        fileSystem.log.acknowledge("created")
        try fileSystem.makeDirectories("/a/b/c")
        fileSystem.log.acknowledge("made directories")
        try fileSystem.makeDirectories("/a/b/c/d")
        fileSystem.log.acknowledge("made one more")
        let store = try StoreDirectory("/store", on: fileSystem)
        try store.makeDirectory(try RelativeKey("x/y"))
        fileSystem.log.acknowledge("made a directory in a store")
        try store.removeTree(try RelativeKey("x"))
        fileSystem.log.acknowledge("removed a tree")
        #expect(fileSystem.log.lint() == [])
    }

    @Test("a recipe without durability is reported")
    func withoutDurability() throws {
        try fileSystem.replace("/d/old", with: "new", durability: .none)
        #expect(kinds() == [.closedDirtyFile, .directoryNeverSynchronized, .renamedUnsynchronizedData])
        fileSystem.log.removeAll()
        try fileSystem.replace("/d/older", with: "new", durability: .barrier)
        #expect(kinds() == [.directoryNeverSynchronized])
        fileSystem.log.acknowledge("all of it")
        // With a real barrier, the content is not on the device either.
        #expect(
            !kinds().filter { [.acknowledgedUnsynchronizedName, .acknowledgedUnsynchronizedData].contains($0) }.isEmpty)
    }

    @Test("a rename before the content is synchronised is reported")
    func renamesEarly() throws {
        try write("new", to: "/d/#tmp-1", synchronizing: nil)
        try fileSystem.rename("/d/#tmp-1", to: "/d/old")
        try synchronizeDirectory("/d")
        let findings = fileSystem.log.lint()
        #expect(findings.map(\.kind) == [.closedDirtyFile, .renamedUnsynchronizedData])
        #expect(findings.last?.description == "line 4: renamed a file with unsynchronised data: /d/old")
        try write("new", to: "/d/#tmp-2", synchronizing: nil)
        try fileSystem.link("/d/#tmp-2", to: "/d/linked")
        #expect(kinds().count { $0 == .renamedUnsynchronizedData } == 2)
    }

    @Test("an acknowledgement before the directory or the content is synchronised is reported")
    func acknowledgesEarly() throws {
        try write("new", to: "/d/new", synchronizing: .full)
        fileSystem.log.acknowledge("created")
        #expect(kinds() == [.directoryNeverSynchronized, .acknowledgedUnsynchronizedName])
        try synchronizeDirectory("/d")
        fileSystem.log.acknowledge("created")
        #expect(kinds() == [.acknowledgedUnsynchronizedName])
        try fileSystem.unlink("/d/old")
        fileSystem.log.acknowledge("removed")
        #expect(kinds() == [.acknowledgedUnsynchronizedName, .acknowledgedUnsynchronizedName])
        try write("more", to: "/d/new", options: [.append], synchronizing: nil)
        fileSystem.log.acknowledge("appended")
        #expect(kinds().suffix(3).contains(.acknowledgedUnsynchronizedData))
    }

    @Test("an unacknowledged removal is not a finding")
    func removes() throws {
        try fileSystem.unlink("/d/old")
        #expect(kinds() == [])
    }

    @Test("closing a dirty file is a finding, unless it is deleted or synchronised later")
    func closesDirty() throws {
        try write("x", to: "/d/#tmp-1", synchronizing: nil)
        try fileSystem.unlink("/d/#tmp-1")
        #expect(kinds() == [])
        try write("x", to: "/d/#tmp-2", synchronizing: nil)
        #expect(kinds() == [.closedDirtyFile])
        let descriptor = try fileSystem.open("/d/#tmp-2")
        try fileSystem.synchronize(descriptor, .data)
        try fileSystem.close(descriptor)
        #expect(kinds() == [])
        let unlinked = try fileSystem.open("/d/#tmp-2", .writeOnly)
        try fileSystem.unlink("/d/#tmp-2")
        try fileSystem.writeFully(unlinked, from: [1])
        try fileSystem.close(unlinked)
        #expect(kinds() == [])
    }

    @Test(
        "overwriting synchronised data is a finding, appending is not",
        arguments: [
            ([], 9, true), ([], 10, false), ([.append], 0, false), ([.truncate], 0, true),
        ] as [(FileDescriptor.OpenOptions, Int64, Bool)])
    func writesInPlace(_ options: FileDescriptor.OpenOptions, _ offset: Int64, _ isNamed: Bool) throws {
        let descriptor = try fileSystem.open("/d/old", .writeOnly, options: options)
        try fileSystem.writeFully(descriptor, from: [1, 2], at: offset)
        try fileSystem.synchronize(descriptor, .full)
        try fileSystem.close(descriptor)
        #expect(kinds() == (isNamed ? [.wroteInPlace] : []))
    }

    @Test("truncating durable content is a finding, extending the file is not")
    func truncates() throws {
        let descriptor = try fileSystem.open("/d/old", .writeOnly)
        try fileSystem.allocate(descriptor, at: 0, length: 100)
        try fileSystem.truncate(.descriptor(descriptor), to: 200)
        try fileSystem.synchronize(descriptor, .data)
        try fileSystem.truncate(.descriptor(descriptor), to: 200)
        #expect(kinds() == [])
        try fileSystem.truncate(.descriptor(descriptor), to: 5)
        try fileSystem.writeFully(descriptor, from: [1], at: 5)
        try fileSystem.synchronize(descriptor, .full)
        #expect(kinds() == [.wroteInPlace])
        try fileSystem.close(descriptor)
    }

    @Test("a directory that is never synchronised after a creation or a move is reported")
    func forgetsDirectory() throws {
        try fileSystem.createDirectory("/a")
        try fileSystem.createDirectory("/a/b")
        try synchronizeDirectory("/a")
        try fileSystem.rename("/d/old", to: "/a/moved")
        let findings = fileSystem.log.lint()
        #expect(findings.map(\.kind) == [.directoryNeverSynchronized, .directoryNeverSynchronized])
        #expect(findings.map(\.path) == ["/a", "/a/moved"])
    }

    @Test("a second synchronisation after a failed one is reported")
    func retries() throws {
        fileSystem.plan.add(.on(.synchronize, matching: "/d/new", do: .failSynchronization()))
        let descriptor = try fileSystem.open("/d/new", .writeOnly, options: [.create])
        try fileSystem.writeFully(descriptor, from: [1])
        #expect(throws: FileSystemError.self) { try fileSystem.synchronize(descriptor, .full) }
        try fileSystem.synchronize(descriptor, .full)
        try fileSystem.close(descriptor)
        try synchronizeDirectory("/d")
        fileSystem.log.acknowledge("done")
        #expect(kinds() == [.retriedSynchronization, .acknowledgedUnsynchronizedData])
    }

    @Test("a synchronisation after a failed one is no mistake if the data is written anew, or if there was none")
    func writesAnew() throws {
        for name in ["/d/old", "/d/new"] as [FaultTarget] {
            fileSystem.plan.add(.on(.synchronize, matching: name, do: .failSynchronization()))
        }
        let old = try fileSystem.open("/d/old", .writeOnly)
        #expect(throws: FileSystemError.self) { try fileSystem.synchronize(old, .full) }
        try fileSystem.synchronize(old, .full)
        try fileSystem.close(old)
        let new = try fileSystem.open("/d/new", .writeOnly, options: [.create])
        try fileSystem.writeFully(new, from: [1])
        #expect(throws: FileSystemError.self) { try fileSystem.synchronize(new, .full) }
        try fileSystem.writeFully(new, from: [1], at: 0)
        try fileSystem.synchronize(new, .full)
        try fileSystem.close(new)
        try synchronizeDirectory("/d")
        fileSystem.log.acknowledge("done")
        #expect(fileSystem.log.lint() == [])
    }

    @Test("a call that failed has no findings, unless it failed after its effect", arguments: FaultEffect.allCases)
    func failedCalls(_ effect: FaultEffect) throws {
        fileSystem.plan.add(.fail(.createDirectory, .rename, with: .ioError, effect: effect))
        #expect(throws: FileSystemError.self) { try fileSystem.createDirectory("/e") }
        #expect(throws: FileSystemError.self) { try fileSystem.rename("/d/old", to: "/d/new") }
        #expect(fileSystem.log.lint().map(\.path) == (effect == .done ? ["/e", "/d/new"] : []))
    }

    @Test("a call that changes nothing needs no synchronisation")
    func changesNothing() throws {
        let descriptor = try fileSystem.open("/d/old", .readWrite)
        try fileSystem.truncate(.descriptor(descriptor), to: 10)
        let nothing: [UInt8] = []
        let count = try nothing.withUnsafeBytes { try fileSystem.write(descriptor, from: $0, at: 0) }
        fileSystem.log.acknowledge("\(count) bytes")
        try fileSystem.close(descriptor)
        #expect(fileSystem.log.lint() == [])
    }

    @Test("only the last descriptor of a file closes it dirty")
    func closesLast() throws {
        let first = try fileSystem.open("/d/new", .writeOnly, options: [.create])
        let second = try fileSystem.duplicate(first)
        try fileSystem.writeFully(first, from: [1])
        try fileSystem.close(first)
        #expect(kinds() == [.directoryNeverSynchronized])
        try fileSystem.close(second)
        #expect(kinds() == [.directoryNeverSynchronized, .closedDirtyFile])
    }

    @Test("content is synchronised data from its own synchronisation on, or from the first call in the log")
    func safeContent() throws {
        try write("0123456789", to: "/d/new", synchronizing: .full)
        try synchronizeDirectory("/d")
        try write("x", to: "/d/new", options: [], synchronizing: .full)
        #expect(kinds() == [.wroteInPlace])
        let descriptor = try fileSystem.open("/d/old", .writeOnly)
        fileSystem.log.removeAll()
        try fileSystem.writeFully(descriptor, from: [1], at: 9)
        try fileSystem.synchronize(descriptor, .full)
        try fileSystem.close(descriptor)
        #expect(kinds() == [.wroteInPlace])
    }

    @Test("unsynchronised data is gone with the last name of its file only")
    func gone() throws {
        try write("more", to: "/d/old", options: [.append], synchronizing: nil)
        try fileSystem.replace("/d/old", with: "new")
        fileSystem.log.acknowledge("replaced")
        #expect(fileSystem.log.lint() == [])
        try fileSystem.link("/d/old", to: "/d/other")
        try write("more", to: "/d/old", options: [.append], synchronizing: nil)
        try fileSystem.unlink("/d/old")
        try synchronizeDirectory("/d")
        fileSystem.log.acknowledge("appended")
        #expect(kinds() == [.closedDirtyFile, .acknowledgedUnsynchronizedData])
    }

    @Test("a range that is copied is unsynchronised data, as if it were written")
    func copiesRange() throws {
        var base = InterceptedFileSystem(try memory { try $0.put("0123456789", at: "/old") }) {
            (_) throws(FileSystemError) in
        }
        base.copyingRange = { (base, call) throws(FileSystemError) in
            let bytes = try base.readBytes(of: call.source, at: call.sourceOffset, count: call.count)
            try base.writeBytes(bytes, to: call.target, at: call.targetOffset)
            return bytes.count
        }
        let fileSystem = FaultingFileSystem(base)
        let source = try fileSystem.open("/old")
        let target = try fileSystem.open("/#tmp-1", .readWrite, options: [.create])
        #expect(try fileSystem.copyRange(from: source, at: 2, to: target, at: 0, count: 5) == 5)
        for descriptor in [source, target] { try fileSystem.close(descriptor) }
        try fileSystem.rename("/#tmp-1", to: "/old")
        let copied = fileSystem.log.records.first { $0.operation == .copyRange }
        #expect(copied?.description.hasSuffix("at 0 count 5 from 2 = 5") == true)
        #expect(
            fileSystem.log.lint().map(\.kind)
                == [.closedDirtyFile, .directoryNeverSynchronized, .renamedUnsynchronizedData])
    }

    /// A durable preallocated file, and a mapping of it.
    private func mapped() throws -> (descriptor: Descriptor, mapping: FileMapping) {
        let descriptor = try fileSystem.open("/d/log", .readWrite, options: [.create])
        try fileSystem.allocate(descriptor, at: 0, length: 8192)
        try fileSystem.synchronize(descriptor, .full)
        try synchronizeDirectory("/d")
        return (descriptor, try fileSystem.map(descriptor, at: 0, count: 8192))
    }

    private func store(_ text: String, at offset: Int, in mapping: FileMapping) {
        Array(text.utf8).withUnsafeBytes { mapping.store($0, at: offset) }
    }

    @Test("consecutive stores that are written back and synchronised have no findings")
    func storesAreKept() throws {
        let (descriptor, mapping) = try mapped()
        for place in 0..<3 {
            store("record", at: place * 6, in: mapping)
            try mapping.writeBack()
            try fileSystem.synchronize(descriptor, .data)
            fileSystem.log.acknowledge("record \(place)")
        }
        try fileSystem.close(descriptor)
        #expect(fileSystem.log.lint() == [])
    }

    @Test("a store is unsynchronised until it is written back and then synchronised", arguments: 0..<4)
    func storesAreDirty(_ missing: Int) throws {
        let (descriptor, mapping) = try mapped()
        store("record", at: 0, in: mapping)
        // In the wrong order neither has an effect.
        if missing == 0 || missing == 3 { try fileSystem.synchronize(descriptor, .full) }
        if missing == 1 || missing == 3 { try mapping.writeBack() }
        fileSystem.log.acknowledge("record")
        try fileSystem.close(descriptor)
        #expect(kinds() == [.acknowledgedUnsynchronizedData, .closedDirtyFile])
    }

    @Test("renaming a file whose stores were not written back is renaming unsynchronised data")
    func renamesStores() throws {
        let (descriptor, mapping) = try mapped()
        store("record", at: 0, in: mapping)
        try fileSystem.synchronize(descriptor, .full)
        try fileSystem.rename("/d/log", to: "/d/new")
        try synchronizeDirectory("/d")
        #expect(kinds() == [.renamedUnsynchronizedData])
        try fileSystem.close(descriptor)
    }

    @Test("storing over synchronised stores is a finding")
    func storesInPlace() throws {
        let (descriptor, mapping) = try mapped()
        for place in [0, 6, 4] {
            store("record", at: place, in: mapping)
            try mapping.writeBack()
            try fileSystem.synchronize(descriptor, .data)
        }
        try fileSystem.close(descriptor)
        #expect(kinds() == [.wroteInPlace])
    }
}
