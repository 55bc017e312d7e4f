import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

/// A directory on the disk that no other test uses.
struct TemporaryDirectory {
    let url: URL

    init(in parent: URL = FileManager.default.temporaryDirectory) throws {
        url = parent.resolvingSymlinksInPath()
            .appending(path: "forge-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    var path: POSIXPath { POSIXPath(url.path(percentEncoded: false).trimmingSuffix("/")) }

    /// The umask of this process, derived from a new file: `umask(2)` would change it briefly.
    func umask() throws -> FilePermissions {
        let probe = path.appending("umask")
        let everything = FilePermissions(rawValue: 0o777)
        let fileSystem = SystemFileSystem()
        try fileSystem.close(try fileSystem.open(probe, .writeOnly, options: [.create], permissions: everything))
        let granted = try fileSystem.status(probe).permissions
        try fileSystem.unlink(probe)
        return everything.subtracting(granted)
    }

    func remove() {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            Issue.record(error)
        }
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}

/// Expects an error of the file system with this number.
func expectErrno(_ errno: Errno, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void) {
    let error = #expect(throws: FileSystemError.self, sourceLocation: sourceLocation) { try body() }
    #expect(error?.errno == errno, sourceLocation: sourceLocation)
}

#if os(Linux)
import ChildProcesses
import ForgeFileSystem
import Foundation
import Glibc
import SystemPackage

/// A small device, mounted at a new directory for one test.
struct ScratchDevice {
    enum Kind: String, CaseIterable, Sendable {
        /// On a file, through a loop device; 4 MiB and 64 inodes.
        case ext4
        /// In memory; 1 MiB and 64 inodes.
        case tmpfs
        /// The disk itself, mounted a second time.
        case bound
    }

    struct Unavailable: Error, CustomStringConvertible {
        var description: String
    }

    private static let readOnly: UInt = 1
    private static let remount: UInt = 32
    private static let bind: UInt = 4096
    private static let detach: CInt = 2

    private let kind: Kind
    private let directory: TemporaryDirectory
    private var place: String { String(directory.path) + "/place" }

    /// The file systems that the kernel can mount here; prints the reason for each other one.
    static let available: [Kind] = Kind.allCases.filter { kind in
        do {
            try ScratchDevice(kind).remove()
            return true
        } catch {
            print("NOT RUN: the tests on a device of the system, \(kind.rawValue): \(error)")
            return false
        }
    }

    /// The small ones.
    static let small = available.filter { $0 != .bound }

    /// Mounts a new device, which is empty except for what its kind creates.
    init(_ kind: Kind) throws {
        self.kind = kind
        directory = try TemporaryDirectory()
        do {
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
            try mountDevice()
        } catch {
            directory.remove()
            throw error
        }
    }

    private func mountDevice() throws {
        switch kind {
        case .ext4:
            let image = String(directory.path) + "/image"
            guard FileManager.default.createFile(atPath: image, contents: nil), truncate(image, 4 << 20) == 0 else {
                throw Errno(rawValue: errno)
            }
            try Self.run("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "64", image)
            try Self.run("mount", "-o", "loop", image, place)
        case .tmpfs: try mount("tmpfs", 0, "size=1m,nr_inodes=64,mode=755")
        case .bound: try mount(nil, Self.bind, nil)
        }
    }

    private func mount(_ type: String?, _ flags: UInt, _ options: String?) throws {
        let result = Glibc.mount(place, place, type, flags, options)
        guard result == 0 else { throw Unavailable(description: "mount: \(Errno(rawValue: errno))") }
    }

    /// A new directory on the device.
    func newDirectory() throws -> POSIXPath {
        let path = POSIXPath(place + "/root")
        try SystemFileSystem().createDirectory(path, permissions: FilePermissions(rawValue: 0o755))
        return path
    }

    /// Makes the device read-only.
    var makeReadOnly: @Sendable () throws -> Void {
        let flags = Self.remount | Self.readOnly | (kind == .bound ? Self.bind : 0)
        let place = place
        return {
            guard Glibc.mount(nil, place, nil, flags, nil) == 0 else { throw Errno(rawValue: errno) }
        }
    }

    /// Unmounts the device and removes it.
    func remove() throws {
        guard umount2(place, Self.detach) == 0 else { throw Errno(rawValue: errno) }
        directory.remove()
    }

    private static func run(_ program: String, _ arguments: String...) throws {
        let run = try ChildProcess.run(
            "/usr/bin/env", [program] + arguments,
            environment: ["PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"])
        guard run.end == .exit(0) else {
            let reason = String(decoding: run.errors + run.output, as: UTF8.self).split(separator: "\n").first ?? ""
            throw Unavailable(description: "\(program): \(reason)")
        }
    }
}
#endif
