import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import TestDepth

// Memory safety: A buffer lives as long as the results of reads that refer to it; the checks that change one run on one
// thread.

/// Contents in buffers, which reads return without a copy.
final class FileBuffers: Sendable {
    /// When the buffer of a file is used for another content.
    enum Reuse { case never, byReplacement, afterRemoval }

    private final class Buffer: @unchecked Sendable {
        let memory: UnsafeMutableRawPointer
        let count: Int

        init(count: Int) {
            memory = .allocate(byteCount: count, alignment: 1)
            self.count = count
        }

        deinit { memory.deallocate() }
    }

    private struct State {
        var ofFiles: [String: Buffer] = [:]
        var unused: [Buffer] = []
    }

    private let reuse: Reuse
    private let state = Mutex(State())

    init(_ reuse: Reuse) { self.reuse = reuse }

    func store(_ data: Data, at url: URL) {
        guard !data.isEmpty else { return remove(at: url) }
        state.withLock { state in
            let buffer: Buffer
            if reuse == .byReplacement, let old = state.ofFiles[url.path], old.count == data.count {
                buffer = old
            } else if let index = state.unused.firstIndex(where: { $0.count == data.count }) {
                buffer = state.unused.remove(at: index)
            } else {
                buffer = Buffer(count: data.count)
            }
            data.withUnsafeBytes { bytes in
                if let start = bytes.baseAddress { buffer.memory.copyMemory(from: start, byteCount: bytes.count) }
            }
            state.ofFiles[url.path] = buffer
        }
    }

    /// The buffer itself.
    func content(at url: URL) -> Data? {
        guard let buffer = state.withLock({ $0.ofFiles[url.path] }) else { return nil }
        return Data(
            bytesNoCopy: buffer.memory, count: buffer.count,
            deallocator: .custom { _, _ in withExtendedLifetime(buffer) {} })
    }

    func remove(at url: URL) {
        state.withLock { state in
            let buffer = state.ofFiles.removeValue(forKey: url.path)
            if reuse == .afterRemoval, let buffer { state.unused.append(buffer) }
        }
    }
}

/// Contents that files share if they are equal, and that one of them may take with it.
final class EqualContents: Sendable {
    private let dropped = Mutex<Set<Data>>([])

    func has(_ content: Data) -> Bool { dropped.withLock { !$0.contains(content) } }

    func store(_ content: Data) { dropped.withLock { _ = $0.remove(content) } }

    func drop(_ contents: [Data]) { dropped.withLock { $0.formUnion(contents) } }
}

/// Files that were stored after their directory was removed, and are in the next one of its path.
final class OrphanedFiles: Sendable {
    private let files = Mutex<[(url: URL, content: Data)]>([])

    /// Looks for the directory of a file, and stores the file later.
    func write(
        _ data: Data, to url: URL, of fileSystem: InMemoryFileSystem, meanwhile: () throws -> Void
    ) throws {
        let parent = url.deletingLastPathComponent().path(percentEncoded: false)
        guard fileSystem.fileExists(atPath: parent) else { throw FileSystemError(.write, .noSuchFileOrDirectory) }
        try meanwhile()
        if fileSystem.fileExists(atPath: parent) { do { return try fileSystem.write(data, to: url) } catch {} }
        files.withLock { $0.append((url, data)) }
    }

    /// Stores the files of a directory that has been created.
    func restore(in directory: URL, of fileSystem: InMemoryFileSystem) throws {
        let restored = files.withLock { files in
            let isRestored = { (url: URL) in url.deletingLastPathComponent().path == directory.path }
            defer { files.removeAll { isRestored($0.url) } }
            return files.filter { isRestored($0.url) }
        }
        for file in restored { try fileSystem.write(file.content, to: file.url) }
    }
}

extension FileOperationDefect {
    /// Contents that are stored once, in buffers that are used again, or later than their place was looked up.
    static let ofStoredContents: [FileOperationDefect] =
        [
            ("a file changes with what was read from it", FileBuffers.Reuse.never),
            ("the buffer of a file is used for its next content", .byReplacement),
            ("the buffer of a removed file is used for the next one", .afterRemoval),
        ].map { name, reuse in
            FileOperationDefect(name, .returnsBuffers) {
                let buffers = FileBuffers(reuse)
                $0.write = { base, data, url in
                    try base.write(data, to: url)
                    buffers.store(data, at: url)
                }
                $0.read = { base, url in
                    let content = try base.read(from: url)
                    return buffers.content(at: url) ?? content
                }
                $0.remove = { base, url in
                    try base.removeItem(at: url)
                    buffers.remove(at: url)
                }
            }
        }
        + [
            FileOperationDefect("a removed file takes equal contents with it", .dropsEqualContents) {
                let contents = EqualContents()
                contents.isShared(by: &$0)
                $0.remove = { base, url in
                    let dropped = base.isDirectory(url) ? [] : base.contents(at: url)
                    try base.removeItem(at: url)
                    contents.drop(dropped)
                }
            },
            FileOperationDefect("a removed tree takes equal contents with it", .dropsEqualContents) {
                let contents = EqualContents()
                contents.isShared(by: &$0)
                $0.remove = { base, url in
                    let dropped = base.isDirectory(url) ? base.contents(at: url) : []
                    try base.removeItem(at: url)
                    contents.drop(dropped)
                }
            },
            FileOperationDefect("a replaced file takes equal contents with it", .dropsEqualContents) {
                let contents = EqualContents()
                contents.isShared(by: &$0)
                $0.write = { base, data, url in
                    contents.drop(base.contents(at: url))
                    try base.write(data, to: url)
                    contents.store(data)
                }
            },
            FileOperationDefect("a file that is written again takes equal contents with it", .dropsEqualContents) {
                let contents = EqualContents()
                contents.isShared(by: &$0)
                $0.write = { base, data, url in
                    let isEqual = base.contents(at: url) == [data]
                    try base.write(data, to: url)
                    if isEqual { contents.drop([data]) } else { contents.store(data) }
                }
            },
            FileOperationDefect("a replaced file gives its equals the new content", .dropsEqualContents) {
                $0.write = { base, data, url in
                    let old = base.contents(at: url)
                    for entry in try base.contentsOfDirectory(at: BrokenFileOperations.directory)
                    where !base.isDirectory(entry) && !old.isEmpty {
                        if base.contents(at: entry) == old { try base.write(data, to: entry) }
                    }
                    try base.write(data, to: url)
                }
            },
            FileOperationDefect("an old file is set aside under a longer name", .setsAsideUnderLongerNames) {
                $0.write = { base, data, url in
                    let aside = URL(filePath: url.path(percentEncoded: false) + "~")
                    if base.fileExists(atPath: url.path(percentEncoded: false)) {
                        try base.rename(POSIXPath(url), to: POSIXPath(aside))
                    }
                    try base.write(data, to: url)
                    do { try base.removeItem(at: aside) } catch {}
                }
            },
            FileOperationDefect("a directory is removed under a longer name", .setsAsideUnderLongerNames) {
                $0.remove = { base, url in
                    guard base.isDirectory(url), !url.lastPathComponent.isEmpty else {
                        return try base.removeItem(at: url)
                    }
                    let parent = url.deletingLastPathComponent()
                    let trash = parent.appending(component: url.lastPathComponent + ".removed")
                    try base.rename(POSIXPath(url), to: POSIXPath(trash))
                    try base.removeItem(at: trash)
                }
            },
        ]
}

extension EqualContents {
    /// Stores what is written, and reads what has not been dropped.
    fileprivate func isShared(by operations: inout ReplacedFileOperations) {
        operations.write = { base, data, url in
            try base.write(data, to: url)
            self.store(data)
        }
        operations.read = { base, url in
            let content = try base.read(from: url)
            guard self.has(content) else { throw FileSystemError(.read, .ioError) }
            return content
        }
    }
}

extension InMemoryFileSystem {
    fileprivate func isDirectory(_ url: URL) -> Bool {
        do { return try status(POSIXPath(url), followsSymbolicLinks: false).type == .directory } catch { return false }
    }

    /// The content of a file, or the contents of all files of a directory.
    func contents(at url: URL) -> [Data] {
        do {
            switch try status(POSIXPath(url), followsSymbolicLinks: false).type {
            case .directory: return try contentsOfDirectory(at: url).flatMap { contents(at: $0) }
            case .regular: return [try read(from: url)]
            default: return []
            }
        } catch {
            return []
        }
    }

    /// The links that a path leads through: how many, and whether it does so twice through one of them.
    func linksPassed(_ path: POSIXPath) -> (count: Int, areSomeTwice: Bool) {
        var pending = Array(String(path).split(separator: "/").map(String.init).reversed())
        var current: [String] = []
        var passed: [String] = []
        while passed.count <= 40, let name = pending.popLast() {
            guard name != "." else { continue }
            guard name != ".." else {
                _ = current.popLast()
                continue
            }
            let entry = "/" + (current + [name]).joined(separator: "/")
            do {
                let target = try readSymbolicLink(POSIXPath(entry))
                passed.append(entry)
                if target.isAbsolute { current = [] }
                pending += String(target).split(separator: "/").map(String.init).reversed()
            } catch {
                current.append(name)
            }
        }
        return (passed.count, Set(passed).count < passed.count)
    }
}
