import ChildProcesses
package import Foundation

/// A small file system in memory that can be filled; needs Linux and the right to mount.
package final class TemporaryDisk: Sendable {
    package let directory: URL
    private var filler: URL { directory.appending(path: "filler") }

    package struct NotMounted: Error {
        package var reason: String
    }

    /// Mounts a new file system.
    package init(sizeInBytes: Int) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "forge-disk-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        do {
            try Self.run("mount", "-t", "tmpfs", "-o", "size=\(sizeInBytes)", "tmpfs", directory.path)
        } catch {
            try FileManager.default.removeItem(at: directory)
            throw error
        }
    }

    deinit {
        do {
            try Self.run("umount", "-l", directory.path)
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("cannot unmount \(directory.path): \(error)")
        }
    }

    /// Whether file systems can be mounted here.
    package static let isPermitted: Bool = {
        do {
            _ = try TemporaryDisk(sizeInBytes: 1 << 20)
            return true
        } catch {
            return false
        }
    }()

    /// Takes all space.
    package func fill() {
        let file = open(filler.path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        guard file >= 0 else { return }
        for size in [1 << 20, 1 << 12] {
            let block = [UInt8](repeating: 1, count: size)
            while write(file, block, size) > 0 {}
        }
        close(file)
    }

    /// Frees the space.
    package func free() throws {
        if FileManager.default.fileExists(atPath: filler.path) { try FileManager.default.removeItem(at: filler) }
    }

    private static func run(_ command: String, _ arguments: String...) throws {
        let run = try ChildProcess.run("/bin/\(command)", arguments)
        guard run.end == .exit(0) else { throw NotMounted(reason: String(decoding: run.errors, as: UTF8.self)) }
    }
}
