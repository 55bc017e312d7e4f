import ForgeStorage
import Foundation
import SystemPackage

/// Lines of JSON, on standard output or in a file that appears when it is complete.
struct LinesTarget {
    private static let bufferSize = 1 << 16

    private let home: Home
    private let fileSystem = SystemFileSystem()
    private var buffer: [UInt8] = []
    private let temporary: POSIXPath?
    private let descriptor: Descriptor?

    init(_ home: Home) throws {
        self.home = home
        guard !home.isStandardStream else {
            (temporary, descriptor) = (nil, nil)
            return
        }
        let path = try POSIXPath(home.url)
        try requireNoStoreFile(at: path, home.text)
        if try fileSystem.exists(path, followsSymbolicLinks: false),
            try fileSystem.status(path, followsSymbolicLinks: false).type != .regular
        {
            throw CommandFailure("not a regular file: \(path.shown); json:- writes to standard output")
        }
        let (parent, file) = path.splitLast()
        let name = parent.appending(POSIXPath(Array(POSIXPath.temporaryPrefix.utf8) + file.bytes))
        temporary = name
        let new = try fileSystem.open(name, .writeOnly, options: [.create, .noFollow], permissions: .ownerReadWrite)
        descriptor = new
        do throws(FileSystemError) {
            try fileSystem.lock(new, .exclusive, waiting: false)
        } catch {
            guard error.errno == .resourceTemporarilyUnavailable else { throw error }
            throw CommandFailure("another process is writing \(path.shown)", .inUse)
        }
        try fileSystem.truncate(.descriptor(new), to: 0)
    }

    mutating func set(_ key: String, _ bytes: [UInt8]) throws {
        buffer += Array(try KeyValueLine.encode(key, bytes).utf8)
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferSize { try write() }
    }

    mutating func finish() throws {
        try write()
        guard let descriptor, let temporary else { return }
        try fileSystem.synchronize(descriptor, .full)
        let path = try POSIXPath(home.url)
        try fileSystem.rename(temporary, to: path)
        try fileSystem.synchronizeParent(of: path)
    }

    /// Removes an unfinished file.
    func discard() {
        guard let descriptor, let temporary else { return }
        fileSystem.discard(descriptor)
        do { try fileSystem.unlink(temporary) } catch _ {}  // It was renamed, or the failure is reported already.
    }

    private mutating func write() throws {
        defer { buffer.removeAll(keepingCapacity: true) }
        guard let descriptor else { return try StandardOutput.write(Data(buffer)) }
        try fileSystem.writeBytes(buffer, to: descriptor)
    }
}
