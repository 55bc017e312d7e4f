import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import TestDepth

extension POSIXFileSystem {
    /// Writes a file without any care.
    func put(_ text: String, at path: POSIXPath) throws {
        let descriptor = try open(path, .writeOnly, options: [.create, .truncate])
        try closing(descriptor) { () throws(FileSystemError) in
            try writeFully(descriptor, from: Array(text.utf8))
        }
    }

    func text(at path: POSIXPath) throws -> String {
        String(decoding: try readFile(path), as: UTF8.self)
    }

    /// The text of a file, nil if there is none.
    func textIfPresent(at path: POSIXPath) throws -> String? {
        do {
            return try text(at: path)
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    func writeFully(_ descriptor: Descriptor, from bytes: [UInt8]) throws(FileSystemError) {
        try writeFully(descriptor, from: bytes, at: nil)
    }

    func writeFully(_ descriptor: Descriptor, from bytes: [UInt8], at offset: Int64?) throws(FileSystemError) {
        let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
            do throws(FileSystemError) {
                return .success(try writeFully(descriptor, from: buffer, at: offset))
            } catch {
                return .failure(error)
            }
        }
        try outcome.get()
    }

    func replace(_ path: POSIXPath, with text: String, durability: Durability = .full) throws {
        let (parent, name) = path.splitLast()
        let bytes = Array(text.utf8)
        try withDirectory(parent) { (directory) throws(FileSystemError) in
            let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
                do throws(FileSystemError) {
                    return .success(try replaceFile(name, at: directory, with: buffer.bytes, durability: durability))
                } catch {
                    return .failure(error)
                }
            }
            try outcome.get()
        }
    }
}

/// An in-memory file system with content from `prepare`.
func memory(_ prepare: (InMemoryFileSystem) throws -> Void = { _ in }) rethrows -> InMemoryFileSystem {
    let fileSystem = InMemoryFileSystem()
    try prepare(fileSystem)
    return fileSystem
}

extension FailingCall {
    /// The error numbers of a run: one by default, all in a deep run.
    static let testedErrnos: [Errno] = TestDepth.isDeep ? errnos : [.ioError]

    /// The distance between runs, prime to the number of modes: a default run fails two of seven calls, one of them
    /// once and the other permanently.
    static let testedStep = TestDepth.limit(7, deep: 1)

    /// The first run of one of several tests, different for each of seven: all begin with the calls that open a store.
    static func testedStart(_ place: Int?) -> Int { (place ?? 0) % testedStep }
}

extension FailingCallReport {
    /// The number of runs in both modes with these error numbers and the tested step.
    func testedRunCount(_ errnos: [Errno] = FailingCall.testedErrnos, from start: Int = 0) -> Int {
        (callCount * 2 * errnos.count - start + FailingCall.testedStep - 1) / FailingCall.testedStep
    }
}
