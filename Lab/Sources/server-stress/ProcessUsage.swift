import Foundation

/// The resources that this process uses now.
struct ProcessUsage: Sendable {
    /// The number of open descriptors, connections included.
    var descriptors: Int

    /// The resident memory in MiB; nil where the system has no `/proc`.
    var memory: Int?

    static func now() throws -> ProcessUsage {
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
        let pages = FileManager.default.contents(atPath: "/proc/self/statm").flatMap {
            Int(String(decoding: $0, as: UTF8.self).split(separator: " ").dropFirst().first ?? "")
        }
        return ProcessUsage(descriptors: descriptors, memory: pages.map { ($0 * Int(getpagesize())) >> 20 })
    }
}

extension ProcessUsage: CustomStringConvertible {
    var description: String { "\(descriptors) descriptors\(memory.map { ", \($0) MiB" } ?? "")" }
}
