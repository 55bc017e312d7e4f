import ForgeStorage
import Foundation
import Measuring

/// Hits of a cache, in memory and on disk.
func caches(_ setting: Setting) async throws -> [GoalLine] {
    let keys = (0..<1000).map { "avatars/of/user/\($0)" }
    let value = Data(repeating: 7, count: 100)
    let memory = MemoryCache<Data>(limits: CacheLimits(count: 1000))
    for key in keys { memory.insert(value, for: key) }
    let dictionary = Dictionary(uniqueKeysWithValues: keys.map { ($0, value) })
    var inMemory = Comparison()
    inMemory.add("dictionary", count: 100_000) {
        for _ in 0..<100 { for key in keys { keep(dictionary[key]?.count) } }
    }
    inMemory.add("cache hit in memory", count: 100_000) {
        for _ in 0..<100 { for key in keys { keep(memory.value(for: key)?.count) } }
    }
    let content = Data(repeating: 7, count: 4096)
    let raw = setting.raw
    for number in 0..<1000 { try raw.replace("\(number)", [UInt8](content), durably: false) }
    var options = CacheOptions()
    options.memory = CacheLimits(count: 0)
    let disk = try BoundedCache<Data>(directory: setting.url, options: options)
    for key in keys { try await disk.insert(content, for: key) }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4096)
    defer { buffer.deallocate() }
    var onDisk = Comparison()
    onDisk.add("open, read, close", count: 1000) {
        for number in 0..<1000 { try raw.load("\(number)", into: buffer) }
    }
    onDisk.add("cache hit on disk, 4 KiB", count: 1000) {
        for key in keys {
            keep(try await disk.value(for: key) { throw CocoaError(.fileNoSuchFile) }.count)
        }
    }
    return [
        try await inMemory.line(.atMost(.nanoseconds(60))), try await onDisk.line(.ratioAtMost(1.5)),
    ]
}
