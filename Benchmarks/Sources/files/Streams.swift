import ForgeFileStore
import ForgeFileSystem
import Foundation
import Measuring

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

private let chunkSize = 1 << 20
private let chunkCount = 4096

/// Writes and reads 4 GiB in chunks of 1 MiB.
func streams(_ setting: Setting) async throws -> [GoalLine] {
    let (store, raw) = (setting.store(.none), setting.raw)
    let chunk = Data(repeating: 7, count: chunkSize)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: chunkSize, alignment: 4096)
    defer { buffer.deallocate() }
    buffer.initializeMemory(as: UInt8.self, repeating: 7)
    let before = residentMemory()
    var growth = 0
    var writing = Comparison()
    writing.add("write, with the same buffer", count: chunkCount) {
        let file = try Raw.checked(openat(raw.directory, "large", O_CREAT | O_TRUNC | O_WRONLY, 0o600))
        for _ in 0..<chunkCount { try Raw.checked(write(file, buffer.baseAddress, chunkSize)) }
        try Raw.checked(close(file))
        try Raw.checked(unlinkat(raw.directory, "large", 0))
    }
    writing.add("stream 4 GiB in (per MiB)", count: chunkCount) {
        try await store.write(to: "large") { writer in
            for _ in 0..<chunkCount { try await writer.write(chunk) }
        }
        growth = max(growth, residentMemory() - before)
        try await store.delete("large")
    }
    writing.addNIO(
        .streamIn([UInt8](chunk), chunkCount: chunkCount), at: setting.url.path + "/nio", count: chunkCount)
    let written = try await writing.line(.ratioAtMost(1 / 0.9), runs: 3)
    try await store.write(to: "large") { writer in for _ in 0..<chunkCount { try await writer.write(chunk) } }
    var reading = Comparison()
    reading.add("read, with the same buffer", count: chunkCount) {
        let file = try Raw.checked(open(setting.url.appendingPathComponent("large").path, O_RDONLY))
        for index in 0..<chunkCount {
            try Raw.checked(pread(file, buffer.baseAddress, chunkSize, off_t(index * chunkSize)))
        }
        try Raw.checked(close(file))
    }
    reading.add("stream 4 GiB out (per MiB)", count: chunkCount) {
        for try await chunk in try await store.reader(for: "large").chunks() { keep(chunk.count) }
        growth = max(growth, residentMemory() - before)
    }
    reading.add("the same into a buffer of the caller", count: chunkCount) {
        let reader = try await store.reader(for: "large")
        for index in 0..<chunkCount {
            var bytes = OutputRawSpan(buffer: buffer, initializedCount: 0)
            keep(try reader.readBlocking(into: &bytes, at: Int64(index * chunkSize)))
        }
    }
    reading.addNIO(.streamOut, at: setting.url.path + "/large", count: chunkCount)
    return [
        written, try await reading.line(.ratioAtMost(1 / 0.9), runs: 3),
        GoalLine("memory of streaming", .atMost(.bytes(32 * 1_048_576)), .bytes(Double(growth))),
    ]
}
