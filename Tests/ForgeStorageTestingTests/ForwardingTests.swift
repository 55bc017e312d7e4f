import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("A faulting file system without faults")
struct ForwardingTests {
    @Test(
        "keeps every promise of a file system",
        arguments: TestDepth.leavingOut("a hundred thousand opens", of: ConformanceChecks.fileSystem))
    func conforms(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let base = InMemoryFileSystem()
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        try await check.run(on: FileSystemUnderTest(FaultingFileSystem(base), root: "/root"))
    }

    /// Calls every requirement with arguments whose effects are observable, so that the results and the resulting tree
    /// show whether they were forwarded unchanged.
    private static func useEverything(_ fileSystem: some POSIXFileSystem) throws -> [String] {
        var answers: [String] = []
        func note(_ answer: Any) { answers.append("\(answer)") }

        try fileSystem.createDirectory("/d", at: .workingDirectory, permissions: .privateDirectory)
        let directory = try fileSystem.open("/d", options: [.directory])
        note(directory)
        let file = try fileSystem.open(
            "f", at: directory, .readWrite, options: [.create, .exclusiveCreate], permissions: .privateFile,
            resolution: [.beneath])
        note(try fileSystem.write(file, from: UnsafeRawBufferPointer(start: nil, count: 0), at: nil))
        try fileSystem.writeFully(file, from: Array("hello world".utf8))
        try fileSystem.writeFully(file, from: Array("W".utf8), at: 6)
        note(try fileSystem.seek(file, to: 2, from: .start))
        var buffer = [UInt8](repeating: 0, count: 4)
        note(try buffer.withUnsafeMutableBytes { try fileSystem.read(file, into: $0, at: nil) })
        note(String(decoding: buffer, as: UTF8.self))
        note(try buffer.withUnsafeMutableBytes { try fileSystem.read(file, into: $0, at: 6) })
        note(String(decoding: buffer, as: UTF8.self))
        note(try fileSystem.seek(file, to: 0, from: .current))
        do {
            note(try fileSystem.copyRange(from: file, at: 1, to: file, at: 20, count: 3))
        } catch {
            note(error)
        }
        try fileSystem.truncate(.descriptor(file), to: 5)
        try fileSystem.truncate(.path("f", at: directory), to: 4)
        try fileSystem.allocate(file, at: 0, length: 9000)
        let mapping = try fileSystem.map(file, at: 4096, count: 900)
        Array("mapped".utf8).withUnsafeBytes { mapping.store($0, at: 894) }
        note(mapping.withUnsafeBytes(890..<900) { String(decoding: $0, as: UTF8.self) })
        try mapping.writeBack()
        note(try fileSystem.readBytes(of: file, at: 4096 + 892, count: 10))
        try fileSystem.synchronize(file, .barrier)
        note(try fileSystem.status(of: .descriptor(file)))
        try fileSystem.setPermissions([.ownerRead], of: .path("f", at: directory))
        try fileSystem.setOwner(UserID(7), group: GroupID(8), of: .descriptor(file))
        try fileSystem.setTimes(accessed: FileTime(seconds: -5), modified: nil, of: .descriptor(file))
        try fileSystem.setExtendedAttribute("color", to: [1, 2], of: file)
        note(try fileSystem.extendedAttributeNames(of: file))
        note(try fileSystem.extendedAttribute("color", of: file) ?? [])
        note(try fileSystem.status("/d/f"))
        try fileSystem.createNode("pipe", at: directory, type: .fifo, permissions: .privateFile, deviceNumber: 0)
        try fileSystem.createSymbolicLink("link", at: directory, to: "f")
        note(try fileSystem.readSymbolicLink("link", at: directory))
        note(try fileSystem.status("/d/link", followsSymbolicLinks: false).type)
        try fileSystem.link("f", at: directory, to: "g", at: directory)
        try fileSystem.rename("g", at: directory, to: "link", at: directory, .exchanging)
        try fileSystem.rename("g", at: directory, to: "h", at: .workingDirectory, .exclusive)
        let copy = try fileSystem.duplicate(file)
        note(copy)
        try fileSystem.lock(file, .exclusive, waiting: false)
        try fileSystem.lock(copy, .shared, waiting: true)
        note(try fileSystem.entries(of: directory))
        let watch = try fileSystem.makeDirectoryWatch(on: DispatchQueue(label: "watch")) { _ in
        } onCancel: {
        }
        note(try watch.watch(directory, includesWrites: true))
        watch.cancel()
        note(try fileSystem.makeSignal(of: file) != nil)
        try fileSystem.unlink("pipe", at: directory)
        try fileSystem.createDirectory("e", at: directory, permissions: .privateDirectory)
        try fileSystem.removeDirectory("e", at: directory)
        try fileSystem.close(copy)
        note(fileSystem.effectiveUser)
        note(fileSystem.randomBits())
        for descriptor in [file, directory] { try fileSystem.close(descriptor) }
        return answers
    }

    @Test("gives the results of the base for every requirement, and leaves the same tree")
    func forwards() throws {
        let plain = InMemoryFileSystem(options: .init(seed: 5))
        let below = InMemoryFileSystem(options: .init(seed: 5))
        let wrapper = FaultingFileSystem(below)
        #expect(try Self.useEverything(wrapper) == Self.useEverything(plain))
        #expect(below.openDescriptors.isEmpty)
        #expect(wrapper.openDescriptors.isEmpty)
        for path in ["/d", "/d/f", "/d/link", "/h"] as [POSIXPath] {
            #expect(
                try below.status(path, followsSymbolicLinks: false)
                    == plain.status(path, followsSymbolicLinks: false))
        }
        let called = Set(wrapper.log.records.map(\.operation))
        #expect(called == Set(FileSystemOperation.allCases).subtracting([.resolve]))
    }

    /// Forwards every call, and records its operation.
    private struct Recorder: InterceptingFileSystem {
        final class Operations: Sendable {
            let seen = Mutex<Set<FileSystemOperation>>([])
        }

        let forwarded: any POSIXFileSystem
        let operations = Operations()

        func intercept(_ call: InterceptedCall) throws(FileSystemError) {
            operations.seen.withLock { _ = $0.insert(call.operation) }
        }
    }

    @Test("an interception sees every call but stores, and a descriptor is released even if it refuses to close it")
    func intercepts() throws {
        let plain = InMemoryFileSystem(options: .init(seed: 5))
        let below = InMemoryFileSystem(options: .init(seed: 5))
        let recorder = Recorder(forwarded: below)
        #expect(try Self.useEverything(recorder) == Self.useEverything(plain))
        #expect(below.openDescriptors.isEmpty)
        for path in ["/d", "/d/f", "/d/link", "/h"] as [POSIXPath] {
            #expect(
                try below.status(path, followsSymbolicLinks: false)
                    == plain.status(path, followsSymbolicLinks: false))
        }
        let seen = recorder.operations.seen.withLock { $0 }
        #expect(seen == Set(FileSystemOperation.allCases).subtracting([.resolve, .store]))
        let refusing = InterceptedFileSystem(below) { (call) throws(FileSystemError) in
            if call.operation == .close { throw FileSystemError(.close, .ioError) }
        }
        let root = try refusing.open("/", options: [.directory])
        #expect(throws: FileSystemError.self) { try refusing.close(root) }
        #expect(below.openDescriptors.isEmpty)
    }

    @Test("a watch that failed after its effect has ended, as one that the caller ends")
    func unwatches() throws {
        let plan = FaultPlan([.fail(.watch, call: 1, with: .noSpace, effect: .done)])
        let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
        let root = try fileSystem.open("/", options: [.directory])
        let watch = try fileSystem.makeDirectoryWatch(on: DispatchQueue(label: "watch")) { _ in
        } onCancel: {
        }
        #expect(throws: FileSystemError.self) { try watch.watch(root, includesWrites: true) }
        // A directory that is watched already keeps its number.
        #expect(try watch.watch(root, includesWrites: true) == 2)
        #expect(try watch.watchExistence(of: root) == 2)
        watch.unwatch(2)
        #expect(try watch.watch(root, includesWrites: true) == 3)
        watch.cancel()
        try fileSystem.close(root)
    }

    @Test("errors are forwarded unchanged", arguments: FileSystemOperation.allCases)
    func forwardsErrors(_ operation: FileSystemOperation) throws {
        let wrapper = FaultingFileSystem(InMemoryFileSystem())
        let closed = Descriptor(rawValue: 77)
        func attempt(_ body: () throws(FileSystemError) -> Void) -> FileSystemError? {
            do {
                try body()
                return nil
            } catch {
                return error
            }
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)
        defer { buffer.deallocate() }
        let missing = FileReference.path("/none/x")
        let error: FileSystemError? =
            switch operation {
            case .open: attempt { () throws(FileSystemError) in _ = try wrapper.open("/none/x") }
            case .close: attempt { () throws(FileSystemError) in try wrapper.close(closed) }
            case .duplicate: attempt { () throws(FileSystemError) in _ = try wrapper.duplicate(closed) }
            case .read:
                attempt { () throws(FileSystemError) in _ = try wrapper.read(closed, into: buffer, at: nil) }
            case .write:
                attempt { () throws(FileSystemError) in
                    _ = try wrapper.write(closed, from: UnsafeRawBufferPointer(buffer), at: nil)
                }
            case .copyRange:
                attempt { () throws(FileSystemError) in
                    _ = try wrapper.copyRange(from: closed, at: 0, to: closed, at: 0, count: 1)
                }
            case .seek: attempt { () throws(FileSystemError) in _ = try wrapper.seek(closed, to: 0, from: .end) }
            case .truncate: attempt { () throws(FileSystemError) in try wrapper.truncate(missing, to: 0) }
            case .allocate:
                attempt { () throws(FileSystemError) in try wrapper.allocate(closed, at: 0, length: 1) }
            case .map: attempt { () throws(FileSystemError) in _ = try wrapper.map(closed, at: 0, count: 1) }
            case .store: nil
            case .writeBack:
                attempt { () throws(FileSystemError) in
                    let below = InMemoryFileSystem()
                    let wrapper = FaultingFileSystem(below)
                    let file = try wrapper.open("/f", .readWrite, options: [.create])
                    let mapping = try wrapper.map(file, at: 0, count: 1)
                    below.writeError = ProcessCrashed()
                    try mapping.writeBack()
                }
            case .synchronize: attempt { () throws(FileSystemError) in try wrapper.synchronize(closed, .data) }
            case .status: attempt { () throws(FileSystemError) in _ = try wrapper.status(of: missing) }
            case .setPermissions:
                attempt { () throws(FileSystemError) in try wrapper.setPermissions([], of: missing) }
            case .setOwner:
                attempt { () throws(FileSystemError) in try wrapper.setOwner(nil, group: nil, of: missing) }
            case .setTimes:
                attempt { () throws(FileSystemError) in
                    try wrapper.setTimes(accessed: FileTime(seconds: 0), modified: nil, of: missing)
                }
            case .listExtendedAttributes:
                attempt { () throws(FileSystemError) in _ = try wrapper.extendedAttributeNames(of: closed) }
            case .readExtendedAttribute:
                attempt { () throws(FileSystemError) in _ = try wrapper.extendedAttribute("a", of: closed) }
            case .setExtendedAttribute:
                attempt { () throws(FileSystemError) in try wrapper.setExtendedAttribute("a", to: [], of: closed) }
            case .createDirectory: attempt { () throws(FileSystemError) in try wrapper.createDirectory("/none/x") }
            case .createNode:
                attempt { () throws(FileSystemError) in
                    try wrapper.createNode(
                        "/none/x", at: .workingDirectory, type: .regular, permissions: [], deviceNumber: 0)
                }
            case .removeDirectory: attempt { () throws(FileSystemError) in try wrapper.removeDirectory("/none/x") }
            case .unlink: attempt { () throws(FileSystemError) in try wrapper.unlink("/none/x") }
            case .rename: attempt { () throws(FileSystemError) in try wrapper.rename("/none/x", to: "/y") }
            case .link: attempt { () throws(FileSystemError) in try wrapper.link("/none/x", to: "/y") }
            case .createSymbolicLink:
                attempt { () throws(FileSystemError) in try wrapper.createSymbolicLink("/none/x", to: "y") }
            case .readSymbolicLink:
                attempt { () throws(FileSystemError) in _ = try wrapper.readSymbolicLink("/none/x") }
            case .list: attempt { () throws(FileSystemError) in _ = try wrapper.entries(of: closed) }
            case .lock:
                attempt { () throws(FileSystemError) in try wrapper.lock(closed, .shared, waiting: true) }
            case .watch:
                attempt { () throws(FileSystemError) in
                    let watch = try wrapper.makeDirectoryWatch(on: DispatchQueue(label: "watch")) { _ in
                    } onCancel: {
                    }
                    defer { watch.cancel() }
                    _ = try watch.watch(closed, includesWrites: true)
                }
            case .resolve: attempt { () throws(FileSystemError) in _ = try POSIXPath(URL(filePath: "/a\0b")) }
            }
        // A store cannot fail.
        #expect(error?.operation == (operation == .store ? nil : operation))
        guard operation != .resolve, operation != .store else { return }
        if operation == .writeBack {
            #expect(error?.errno == .ioError)
            #expect(error?.underlying is ProcessCrashed)
            return
        }
        // A file system in memory copies no ranges.
        let expected: [Errno] =
            operation == .copyRange ? [.notSupported] : [.noSuchFileOrDirectory, .badFileDescriptor]
        #expect(error.map { expected.contains($0.errno) } == true)
        #expect(wrapper.log.records.map(\.operation) == [operation])
        #expect(wrapper.log.records.first?.outcome == error.map { .failure($0.errno) })
    }

    @Test("the six calls use its own calls, so that faults apply inside them")
    func sixCalls() throws {
        let fileSystem = FaultingFileSystem(
            InMemoryFileSystem(), plan: FaultPlan([.fail(.rename, with: .diskQuotaExceeded)]))
        let error = #expect(throws: FileSystemError.self) {
            try fileSystem.write(Data("x".utf8), to: URL(filePath: "/file"))
        }
        #expect(error?.errno == .diskQuotaExceeded)
        #expect(error?.operation == .rename)
        #expect(!fileSystem.fileExists(atPath: "/file"))
        try fileSystem.plan.requireAllFired()
    }

    @Test("a descriptor has the path that opened it, updated by renames")
    func knowsPaths() throws {
        let fileSystem = FaultingFileSystem(
            try memory {
                try $0.makeDirectories("/a/b")
                try $0.put("x", at: "/a/b/f")
                try $0.put("y", at: "/g")
            })
        let a = try fileSystem.open("/a/./b/..")
        let b = try fileSystem.open("b", at: a)
        let f = try fileSystem.open("f", at: b)
        let up = try fileSystem.open("..", at: b)
        let relative = try fileSystem.open("a/../g")
        #expect(fileSystem.path(of: a) == "/a")
        #expect(fileSystem.path(of: f) == "/a/b/f")
        #expect(fileSystem.path(of: up) == "/a")
        #expect(fileSystem.path(of: relative) == "g")
        for (path, expected) in [("/../a", "/a"), (".", "."), ("../..", "../.."), ("/..", "/")] {
            let descriptor = try fileSystem.open(POSIXPath(path))
            #expect(fileSystem.path(of: descriptor) == POSIXPath(expected))
        }
        let g = try fileSystem.open("/g")
        try fileSystem.rename("/a", to: "/z")
        #expect(fileSystem.path(of: f) == "/z/b/f")
        try fileSystem.rename("/z/b/f", to: "/g", .exchanging)
        #expect(fileSystem.path(of: f) == "/g" && fileSystem.path(of: g) == "/z/b/f")
        #expect(fileSystem.path(of: Descriptor(rawValue: 99)) == nil)
        for descriptor in fileSystem.openDescriptors { try fileSystem.close(descriptor) }
    }

    @Test("works on the disk as it does in memory")
    func onDisk() throws {
        let root = FileManager.default.temporaryDirectory.appendingPathComponent("faults-\(UUID())")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: root) } catch { Issue.record(error) } }
        let directory = try POSIXPath(root)
        func transcript(_ base: any POSIXFileSystem, _ directory: POSIXPath) throws -> String {
            let fileSystem = FaultingFileSystem(base)
            try fileSystem.makeDirectories(directory.appending("d"))
            try fileSystem.replace(directory.appending("d/f"), with: "text")
            try fileSystem.removeTree(directory.appending("d"))
            return fileSystem.log.text
        }
        let base = try memory { try $0.makeDirectories(directory) }
        let expected = try transcript(base, directory)
        let actual = try transcript(SystemFileSystem(), directory)
        #expect(actual == expected, "\(actual)\nin memory:\n\(expected)")
    }

    @Test("a waiting lock call does not prevent others from releasing the lock")
    func waitsOutside() async throws {
        let fileSystem = FaultingFileSystem(try memory { try $0.put("", at: "/lock") })
        let first = try fileSystem.open("/lock")
        try fileSystem.lock(first, .exclusive, waiting: false)
        let waiting = Task.detached {
            let second = try fileSystem.open("/lock")
            try fileSystem.lock(second, .exclusive, waiting: true)
            try fileSystem.close(second)
        }
        while fileSystem.openDescriptors.count < 2 { await Task.yield() }
        try fileSystem.close(first)
        try await waiting.value
        #expect(fileSystem.openDescriptors.isEmpty)
    }
}
