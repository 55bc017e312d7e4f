import ForgeFileSystem
import Foundation
import SystemPackage

/// A file without a format: the cost of the system calls alone.
final class PlainFile: Sendable {
    private let descriptor: Descriptor
    private let fileSystem = SystemFileSystem()
    private static let recordSize = 64

    init(_ path: String) throws {
        descriptor = try fileSystem.open(
            POSIXPath(path), .readWrite, options: [.create, .exclusiveCreate], permissions: [.ownerReadWrite])
    }

    deinit {
        // The file is temporary, so a failure does not matter.
        do { try fileSystem.close(descriptor) } catch _ {}
    }

    /// Appends records of 64 bytes, one call each, and truncates the file.
    func write(_ count: Int) throws {
        try withUnsafeTemporaryAllocation(byteCount: Self.recordSize, alignment: 8) { record in
            record.initializeMemory(as: UInt8.self, repeating: 0x78)
            for _ in 0..<count {
                let written = Foundation.write(descriptor.rawValue, record.baseAddress, record.count)
                guard written == record.count else { throw FileSystemError(.write, Errno(rawValue: errno)) }
            }
        }
        try fileSystem.truncate(.descriptor(descriptor), to: 0)
        _ = try fileSystem.seek(descriptor, to: 0, from: .start)
    }

    /// Reserves space for records, optionally written as zeros to the device.
    func reserve(_ count: Int, isWritten: Bool) throws {
        let size = count * Self.recordSize
        try fileSystem.allocate(descriptor, at: 0, length: Int64(size))
        if isWritten { try fileSystem.writeBytes([UInt8](repeating: 0, count: size), to: descriptor, at: 0) }
        try fileSystem.synchronize(descriptor, .full)
    }

    /// Overwrites records and waits for the device after each.
    func writeDurably(_ numbers: Range<Int>) throws {
        try withUnsafeTemporaryAllocation(byteCount: Self.recordSize, alignment: 8) { record in
            record.initializeMemory(as: UInt8.self, repeating: 0x78)
            for number in numbers {
                let bytes = UnsafeRawBufferPointer(record)
                try fileSystem.writeFully(descriptor, from: bytes, at: Int64(number * Self.recordSize))
                try fileSystem.synchronize(descriptor, .data)
            }
        }
    }
}
