import ForgeFileStore
import ForgeFileSystem
import Foundation
import Measuring

private let bytes = [UInt8](repeating: 0x78, count: 4096)

func saves(_ setting: Setting) async throws -> [GoalLine] {
    let (store, raw) = (setting.store(.none), setting.raw)
    let data = Data(bytes)
    try await store.save(data, to: "file")
    try await store.save(data, to: "directory/file")
    try raw.replace("file", bytes, durably: false)
    var comparison = Comparison()
    comparison.add("unsafe: kept spare, exchange of names", count: 500) {
        for _ in 0..<500 { try raw.exchangeSpare("file", bytes) }
    }
    comparison.add("save 4 KiB, survives a kill", count: 500) {
        for _ in 0..<500 { try await store.save(data, to: "file") }
    }
    comparison.add("the same, in a directory", count: 500) {
        for _ in 0..<500 { try await store.save(data, to: "directory/file") }
    }
    comparison.add("temporary file, rename", count: 500) {
        for _ in 0..<500 { try raw.replace("file", bytes, durably: false) }
    }
    let foundation = setting.url.appendingPathComponent("foundation")
    comparison.add("Data.write, atomic", count: 500) {
        for _ in 0..<500 { try data.write(to: foundation, options: .atomic) }
    }
    comparison.addNIO(.save(bytes), at: setting.url.path + "/nio", count: 500, perRun: 500)
    return [try await comparison.line(.ratioAtMost(1.5))]
}

func durableSaves(_ setting: Setting) async throws -> [GoalLine] {
    let (store, raw) = (setting.store(.full), setting.raw)
    let data = Data(bytes)
    try await store.save(data, to: "0")
    var one = Comparison()
    one.add("temporary file, fsync, rename, fsync of the directory", count: 50) {
        for _ in 0..<50 { try raw.replace("file", bytes, durably: true) }
    }
    one.add("save 4 KiB, full", count: 50) {
        for _ in 0..<50 { try await store.save(data, to: "0") }
    }
    let line = try await one.line(.ratioAtMost(0.75))
    var many = Comparison()
    many.add("one task saving, full", count: 200) {
        for number in 0..<200 { try await store.save(data, to: "\(number % 8)") }
    }
    many.add("8 tasks saving, full (per save)", count: 200) {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask { for _ in 0..<25 { try await store.save(data, to: "\(task)") } }
            }
            try await group.waitForAll()
        }
    }
    many.add("8 threads: temporary file, fsync, rename, fsync", count: 200) {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    // A thread each, because the system calls block.
                    try await withCheckedThrowingContinuation { continuation in
                        Thread.detachNewThread {
                            continuation.resume(
                                with: Result { for _ in 0..<25 { try raw.replace("t\(task)", bytes, durably: true) } })
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
    many.add("100 saves in a batch, full (per save)", count: 100) {
        try await store.batch { batch in
            for number in 0..<100 { batch.save(data, to: "b\(number)") }
        }
    }
    let found = try await many.run(9)
    return [
        line,
        GoalLine(
            found[1].name, .ratioAtMost(1.0 / 3), found[1], reference: found[0],
            peers: [.init(found[0], reference: nil), .init(found[2], reference: found[0])]),
        GoalLine(found[3].name, .ratioAtMost(0.45), found[3], reference: found[0]),
    ]
}
