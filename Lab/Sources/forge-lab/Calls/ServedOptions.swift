import ForgeFileSystem
import Foundation

extension InMemoryFileSystem.Options {
    /// Options for a file system that other programs use: real time, and no limit on descriptors.
    static func served(size: Int64?, inodes: Int?) -> Self {
        var options = Self(quota: .init(sizeInBytes: size, inodeCount: inodes), maximumOpenFileCount: .max)
        options.clock = {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return FileTime(seconds: Int64(time.tv_sec), nanoseconds: Int32(time.tv_nsec))
        }
        return options
    }
}
