import ForgeFileSystem
import Foundation
import SystemPackage

/// A file without any format: what the system's calls cost by themselves.
final class PlainFile: Sendable {
    private let descriptor: Descriptor
    private let fileSystem = SystemFileSystem()
    private static let recordSize = 64

    init(_ path: String) throws {
        descriptor = try fileSystem.open(
            POSIXPath(path), .readWrite, options: [.create, .exclusiveCreate], permissions: [.ownerReadWrite])
    }

    deinit {
        // Nothing in it is of any use to anybody.
        do { try fileSystem.close(descriptor) } catch _ {}
    }

    /// Appends records of 64 bytes, one call each, and makes the file empty again.
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

    /// Reserves space for so many records; what it holds is zeros on the device, or nothing yet.
    func reserve(_ count: Int, isWritten: Bool) throws {
        let size = count * Self.recordSize
        try fileSystem.allocate(descriptor, at: 0, length: Int64(size))
        if isWritten { try fileSystem.writeBytes([UInt8](repeating: 0, count: size), to: descriptor, at: 0) }
        try fileSystem.synchronize(descriptor, .full)
    }

    /// Writes records from a number on, and waits for the device after each.
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
