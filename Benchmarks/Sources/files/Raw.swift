import CMeasuring
import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// The system calls that a store cannot avoid, made directly, as references.
struct Raw: Sendable {
    /// An open directory.
    let directory: CInt
    private let spare: CInt

    init(_ path: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        directory = try Raw.checked(open(path, O_RDONLY | O_DIRECTORY))
        spare = try Raw.checked(openat(directory, "spare", O_CREAT | O_RDWR, 0o600))
    }

    @discardableResult
    static func checked<Number: SignedInteger>(_ result: Number) throws -> Number {
        guard result >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        return result
    }

    /// Overwrites a kept file and exchanges it with the named one: the least that replaces a file, but unsafe, because
    /// a reader of the old file sees the next content.
    func exchangeSpare(_ name: String, _ bytes: [UInt8]) throws {
        try Raw.checked(pwrite(spare, bytes, bytes.count, 0))
        try Raw.checked(measuring_exchange(directory, "spare", name))
    }

    func replace(_ name: String, _ bytes: [UInt8], durably: Bool) throws {
        let temporary = name + ".tmp"
        let file = try Raw.checked(openat(directory, temporary, O_CREAT | O_EXCL | O_WRONLY, 0o600))
        try Raw.checked(write(file, bytes, bytes.count))
        if durably { try Raw.checked(fsync(file)) }
        try Raw.checked(close(file))
        try Raw.checked(renameat(directory, temporary, directory, name))
        if durably { try Raw.checked(fsync(directory)) }
    }

    /// Opens, reads and closes a file.
    func load(_ name: String, into buffer: UnsafeMutableRawBufferPointer) throws {
        let file = try Raw.checked(openat(directory, name, O_RDONLY))
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let count = try Raw.checked(pread(file, rest.baseAddress, rest.count, off_t(done)))
            if count == 0 { break }
            done += count
        }
        try Raw.checked(close(file))
    }

    /// Maps a file and touches all its pages.
    func map(_ name: String, size: Int) throws -> UInt8 {
        let file = try Raw.checked(openat(directory, name, O_RDONLY))
        defer { close(file) }
        guard let base = mmap(nil, size, PROT_READ, MAP_PRIVATE, file, 0), base != MAP_FAILED else {
            throw POSIXError(.ENOMEM)
        }
        defer { munmap(base, size) }
        return touch(UnsafeRawBufferPointer(start: base, count: size))
    }

    func status(_ name: String) throws -> off_t {
        var status = stat()
        try Raw.checked(fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW))
        return status.st_size
    }

    /// The number of entries below a directory, each with its status.
    func walk(_ path: String) throws -> Int {
        guard let stream = opendir(path) else { throw POSIXError(.ENOENT) }
        defer { closedir(stream) }
        let descriptor = dirfd(stream)
        var count = 0
        var below: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name == "." || name == ".." { continue }
            var status = stat()
            try Raw.checked(fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW))
            count += 1
            if entry.pointee.d_type == DT_DIR { below.append(path + "/" + name) }
        }
        for directory in below { count += try walk(directory) }
        return count
    }
}

/// Reads one byte of each page.
func touch(_ bytes: UnsafeRawBufferPointer) -> UInt8 {
    stride(from: 0, to: bytes.count, by: 4096).reduce(0) { $0 ^ bytes[$1] }
}
