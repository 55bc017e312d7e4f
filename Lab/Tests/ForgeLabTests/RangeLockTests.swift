#if os(Linux)
import ForgeFileSystem
import Foundation
import Glibc
import SystemPackage
import Testing

/// Locks of `fcntl(2)`, and the reasons why no store uses them.
@Suite(.serialized)
struct RangeLockTests {
    @Test("a lock of fcntl(2) does not exclude its own process, and closing any descriptor of the file releases it")
    func onDisk() throws {
        let path = FileManager.default.temporaryDirectory.path + "/forge-lock-\(UUID().uuidString)"
        try expectForgetfulLocks(path)
    }

    @Test("the same holds on a mounted file system", .enabled(if: MountedFileSystem.isPossible))
    func mounted() throws {
        try MountedFileSystem.with { place in try expectForgetfulLocks(place.path + "/f") }
    }

    private func expectForgetfulLocks(_ path: String) throws {
        let fileSystem = SystemFileSystem()
        let open = { try fileSystem.open(POSIXPath(path), .readWrite, options: [.create]) }
        let (first, second, observer) = (try open(), try open(), try open())
        defer { unlink(path) }
        #expect(lock(first) == 0)
        #expect(lock(second) == 0)
        #expect(isLocked(observer))
        try fileSystem.close(second)
        #expect(!isLocked(observer))
        try fileSystem.close(first)
        try fileSystem.close(observer)
    }

    private func lock(_ descriptor: Descriptor) -> CInt {
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        return fcntl(descriptor.rawValue, F_SETLK, &range)
    }

    /// Whether an open-file-description lock would be refused (`F_OFD_GETLK`).
    private func isLocked(_ descriptor: Descriptor) -> Bool {
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        #expect(fcntl(descriptor.rawValue, 36, &range) == 0)
        return range.l_type != Int16(F_UNLCK)
    }
}
#endif
