import ForgeFileStore
import ForgeFileSystem
import Foundation
import Measuring

/// Creates files of 10 bytes in 1,000 directories.
private func fill(_ store: DiskFileStore, _ setting: Setting, count: Int) async throws {
    let data = Data("0123456789".utf8)
    try await store.open()
    for directory in 0..<1000 {
        let url = setting.url.appendingPathComponent("d\(directory)", isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        for file in 0..<count / 1000 {
            guard FileManager.default.createFile(atPath: url.path + "/f\(file)", contents: data) else {
                throw CocoaError(.fileWriteUnknown)
            }
        }
    }
}

func listings(_ setting: Setting) async throws -> [GoalLine] {
    let store = setting.store(.none)
    try await fill(store, setting, count: 100_000)
    var comparison = Comparison()
    comparison.add("readdir and fstatat", count: 1) { keep(try setting.raw.walk(setting.url.path)) }
    var growth = 0
    comparison.add("files(): 100,000 in 1,000 directories", count: 1) {
        let before = residentMemory()
        var count = 0
        for try await _ in store.files() { count += 1 }
        precondition(count == 101_000)
        growth = max(growth, residentMemory() - before)
    }
    comparison.add("list(recursive: true)", count: 1) { keep(try await store.list(recursive: true).count) }
    comparison.addNIO(.list, at: setting.url.path, count: 1)
    let line = try await comparison.line(.ratioAtMost(1.3), runs: 5)
    return [
        line, GoalLine("memory of files()", .atMost(.bytes(16 * 1_048_576)), .bytes(Double(growth))),
    ]
}

/// Calls among a thousand and among a million files.
func million(_ setting: Setting) async throws -> [GoalLine] {
    var found: [[Measurement]] = []
    for count in [1_000, 1_000_000] {
        let store = setting.store(.none)
        try await fill(store, setting, count: count)
        let data = Data("0123456789".utf8)
        var comparison = Comparison()
        comparison.add("save", count: 1000) {
            for number in 0..<1000 { try await store.save(data, to: "d\(number)/f0") }
        }
        comparison.add("load", count: 1000) {
            for number in 0..<1000 { keep(try await store.load("d\(number)/f0").count) }
        }
        comparison.add("open", count: 1) { try await setting.store(.none).open() }
        found.append(try await comparison.run(9))
    }
    return [
        GoalLine("save among 1,000,000 files, beside 1,000", .ratioAtMost(2), found[1][0], reference: found[0][0]),
        GoalLine("load among 1,000,000 files, beside 1,000", .ratioAtMost(2), found[1][1], reference: found[0][1]),
        GoalLine("open among 1,000,000 files", .atMost(.nanoseconds(5e6)), found[1][2]),
    ]
}
