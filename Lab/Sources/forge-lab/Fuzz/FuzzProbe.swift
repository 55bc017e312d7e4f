import ForgeFileSystem
import Foundation
import SystemPackage

/// Probes the rules of the host. Created before the process is confined.
struct FuzzProbe {
    private let guardsSharedDirectories: Bool
    private let guardsHardLinks: Bool

    init() {
        func isOn(_ name: String) -> Bool? {
            FileManager.default.contents(atPath: "/proc/sys/fs/\(name)")
                .map { !String(decoding: $0, as: UTF8.self).hasPrefix("0") }
        }
        guardsSharedDirectories = isOn("protected_symlinks") ?? true || isOn("protected_regular") ?? true
        guardsHardLinks = isOn("protected_hardlinks") ?? false
    }

    func limits(of disk: DiskSide) throws -> FuzzLimits {
        var limits = FuzzLimits()
        limits.isConfined = !disk.isLockedIn
        limits.playsUsers = disk.isLockedIn && guardsHardLinks
        limits.avoidsSharedStickyDirectories = guardsSharedDirectories
        if !disk.isLockedIn {
            limits.owners = [disk.identity.user.rawValue, 0]
            limits.groups = [disk.identity.group.rawValue, 0] + disk.identity.groups.map(\.rawValue)
        }
        let fileSystem = disk.fileSystem
        let probe: POSIXPath = "probe"
        let file = try fileSystem.open(probe, .readWrite, options: [.create])
        try fileSystem.writeBytes([1], to: file)
        let past = FileTime(seconds: 1)
        try fileSystem.setTimes(accessed: past, modified: past, of: .descriptor(file))
        _ = try fileSystem.readContents(of: file)
        limits.comparesAccess = try fileSystem.status(probe).accessed != past
        limits.changesLinkModes = succeeds {
            try fileSystem.setPermissions(.ownerReadWrite, of: .path(probe, followsSymbolicLinks: false))
        }
        if let maximum = limits.maximumFileSize {
            let isUsual =
                succeeds { try fileSystem.truncate(.descriptor(file), to: maximum) }
                && !succeeds { try fileSystem.truncate(.descriptor(file), to: maximum + 1) }
            if !isUsual { limits.maximumFileSize = nil }
        }
        try fileSystem.close(file)
        try fileSystem.unlink(probe)
        limits.opensDevices = try opensDevices(fileSystem, probe)
        return limits
    }

    /// Whether opening a node without a device reports the missing device; a mount may refuse all nodes (`nodev`).
    private func opensDevices(_ fileSystem: SystemFileSystem, _ probe: POSIXPath) throws -> Bool {
        do throws(FileSystemError) {
            try fileSystem.createNode(
                probe, at: .workingDirectory, type: .characterSpecial, permissions: .ownerReadWrite, deviceNumber: 0)
        } catch {
            return false
        }
        var answer: Errno?
        do throws(FileSystemError) {
            try fileSystem.close(try fileSystem.open(probe, .readOnly, options: [.nonBlocking]))
        } catch {
            answer = error.errno
        }
        try fileSystem.unlink(probe)
        return answer == .noSuchAddressOrDevice
    }

    private func succeeds(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            return false
        }
    }
}
