import ForgeFileStore
import ForgeFileSystem
import Foundation
import Measuring

func loads(_ setting: Setting) async throws -> [GoalLine] {
    var lines: [GoalLine] = []
    let store = setting.store(.none)
    for (name, size, count, goal) in [("4 KiB", 4 << 10, 2000, 1.3), ("1 MiB", 1 << 20, 100, 1.15)] {
        let key = "\(size)"
        let data = Data(repeating: 7, count: size)
        try await store.save(data, to: key)
        try data.write(to: setting.url.deletingLastPathComponent().appendingPathComponent("raw/\(key)"))
        let raw = setting.raw
        var comparison = Comparison()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
        defer { buffer.deallocate() }
        comparison.add("open, read, close", count: count) {
            for _ in 0..<count { try raw.load(key, into: buffer) }
        }
        comparison.add("load \(name)", count: count) {
            for _ in 0..<count { keep(try await store.load(key).count) }
        }
        let url = setting.url.appendingPathComponent(key)
        comparison.add("Data(contentsOf:)", count: count) {
            for _ in 0..<count { keep(try Data(contentsOf: url).count) }
        }
        comparison.addNIO(.load, at: url.path, count: count, perRun: count)
        lines.append(try await comparison.line(.ratioAtMost(goal)))
    }
    let size = 64 << 20
    try await store.save(Data(repeating: 7, count: size), to: "large")
    try Data(repeating: 7, count: size).write(
        to: setting.url.deletingLastPathComponent().appendingPathComponent("raw/large"))
    var comparison = Comparison()
    comparison.add("mmap, all pages touched", count: 1) { keep(try setting.raw.map("large", size: size)) }
    comparison.add("map 64 MiB, all pages touched", count: 1) {
        keep(try await store.reader(for: "large").mapped().withUnsafeBytes { touch($0) })
    }
    comparison.add("load 64 MiB", count: 1) { keep(try await store.load("large").count) }
    let url = setting.url.appendingPathComponent("large")
    comparison.add("Data(contentsOf:)", count: 1) { keep(try Data(contentsOf: url).count) }
    comparison.addNIO(.load, at: url.path, count: 1)
    lines.append(try await comparison.line(.ratioAtMost(1.3)))
    return lines
}

func infos(_ setting: Setting) async throws -> [GoalLine] {
    let (store, raw) = (setting.store(.none), setting.raw)
    try await store.save(Data("x".utf8), to: "file")
    try raw.replace("file", [1], durably: false)
    var lines: [GoalLine] = []
    for name in ["exists", "info"] {
        var comparison = Comparison()
        comparison.add("fstatat", count: 5000) { for _ in 0..<5000 { keep(try raw.status("file")) } }
        comparison.add(name, count: 5000) {
            for _ in 0..<5000 {
                if name == "exists" { keep(store.exists("file")) } else { keep(try await store.info("file")) }
            }
        }
        comparison.addNIO(.info, at: setting.url.path + "/file", count: 5000, perRun: 5000)
        lines.append(try await comparison.line(.ratioAtMost(1.3)))
    }
    return lines
}
