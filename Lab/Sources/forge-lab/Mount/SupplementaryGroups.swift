#if os(Linux)
import Glibc
import SystemPackage

/// The supplementary groups of other processes, which FUSE requests do not contain.
enum SupplementaryGroups {
    /// The groups that `/proc` lists for a process; empty if it has ended or is in another process namespace.
    static func of(processID: UInt32) -> [GroupID] {
        guard processID != 0 else { return [] }
        let descriptor = open("/proc/\(processID)/status", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var text: [UInt8] = []
        while true {
            let part = [UInt8](unsafeUninitializedCapacity: 8192) { buffer, count in
                count = max(0, Glibc.read(descriptor, buffer.baseAddress, 8192))
            }
            guard !part.isEmpty else { break }
            text += part
        }
        return parse(text)
    }

    /// The numbers of the line that starts with `Groups:` (`proc(5)`).
    static func parse(_ status: [UInt8]) -> [GroupID] {
        let label = Array("Groups:".utf8)
        for line in status.split(separator: UInt8(ascii: "\n")) where line.starts(with: label) {
            return String(decoding: line.dropFirst(label.count), as: UTF8.self)
                .split(whereSeparator: \.isWhitespace).compactMap { UInt32($0).map { GroupID(rawValue: $0) } }
        }
        return []
    }
}
#endif
