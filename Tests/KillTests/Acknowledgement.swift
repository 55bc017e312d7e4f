import ForgeFileSystem
import Foundation
import SystemPackage

/// The number of the last acknowledged write, in a file that survives the process; -1 if there is none.
struct Acknowledgement {
    private let fileSystem = SystemFileSystem()
    private let file: Descriptor

    init(in directory: URL) throws {
        let path = POSIXPath(directory.appending(path: "acknowledged").path)
        let isNew = !fileSystem.fileExists(atPath: path.description)
        file = try fileSystem.open(path, .readWrite, options: [.create], permissions: [.ownerReadWrite])
        if isNew { try write(-1) }
    }

    /// A single system call, so that a kill leaves this number or the previous one.
    func write(_ number: Int) throws {
        try withUnsafeBytes(of: number) { try fileSystem.writeFully(file, from: $0, at: 0) }
    }

    func read() throws -> Int {
        var number = -1
        _ = try withUnsafeMutableBytes(of: &number) { try fileSystem.read(file, into: $0, at: 0) }
        return number
    }
}
