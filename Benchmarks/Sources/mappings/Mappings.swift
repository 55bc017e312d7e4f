import ForgeFileSystem
import Foundation
import Measuring
import SystemPackage

/// Stores records of 64 bytes into a mapped file, compared with plain copies and with writes.
@main
enum Mappings {
    private static let recordSize = 64
    private static let fileSize = 16 << 20
    private static let count = fileSize / recordSize

    static func main() throws {
        let path = POSIXPath(FileManager.default.temporaryDirectory.path + "/forge-mappings-\(UUID())")
        let system = SystemFileSystem()
        let descriptor = try system.open(path, .readWrite, options: [.create, .exclusiveCreate])
        try system.unlink(path)
        try system.allocate(descriptor, at: 0, length: Int64(fileSize))
        let mapping = try system.map(descriptor, at: 0, count: fileSize)
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: fileSize, alignment: 4096)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        defer { memory.deallocate() }

        let tree = InMemoryFileSystem()
        let file = try tree.open("/f", .readWrite, options: [.create])
        try tree.allocate(file, at: 0, length: Int64(fileSize))
        let twin = try tree.map(file, at: 0, count: fileSize)

        let record = [UInt8](repeating: 0x78, count: recordSize)
        try record.withUnsafeBytes { record in
            let measurements = [
                Measurement("copy into memory", count: count) {
                    for place in 0..<count {
                        let target = UnsafeMutableRawBufferPointer(rebasing: memory[(place * recordSize)...])
                        target.copyMemory(from: record)
                    }
                },
                Measurement("store into a mapping", count: count) {
                    for place in 0..<count { mapping.store(record, at: place * recordSize) }
                },
                Measurement("store into a mapping in memory", runs: 3, count: count) {
                    for place in 0..<count { twin.store(record, at: place * recordSize) }
                },
                try Measurement("write", runs: 5, count: count) {
                    for place in 0..<count {
                        try system.writeFully(descriptor, from: record, at: Int64(place * recordSize))
                    }
                },
            ]
            print(
                MeasurementTable("a record of \(recordSize) bytes into a file of \(fileSize >> 20) MiB", measurements))
            print("ns each: " + measurements.map { "\(($0.median * 100).rounded() / 100)" }.joined(separator: ", "))
        }
        try system.close(descriptor)
    }
}
