package import SystemPackage

extension POSIXFileSystem {
    /// The first offset from `offset` on that is not in a hole; nil if the rest of the file is one (`SEEK_DATA` of
    /// `lseek(2)`).
    ///
    /// On a file system that does not report holes this is `offset`. The call moves the file's offset.
    package func nextData(of descriptor: Descriptor, at offset: Int64) throws(FileSystemError) -> Int64? {
        do {
            return try seek(descriptor, to: offset, from: .data)
        } catch  where error.errno == .noSuchAddressOrDevice {
            return nil
        } catch  where error.errno.isMissingFeature {
            return offset
        }
    }

    /// The first offset from `offset` on that is in a hole, or the end of the file (`SEEK_HOLE` of `lseek(2)`).
    ///
    /// On a file system that does not report holes this is the maximum. The call moves the file's offset.
    package func nextHole(of descriptor: Descriptor, at offset: Int64) throws(FileSystemError) -> Int64 {
        do {
            return try seek(descriptor, to: offset, from: .hole)
        } catch  where error.errno.isMissingFeature {
            return .max
        }
    }
}

extension FileDescriptor.SeekOrigin {
    #if os(Linux)
    /// `SEEK_DATA`, which swift-system has for Darwin only.
    package static let data = FileDescriptor.SeekOrigin(rawValue: 3)

    /// `SEEK_HOLE`.
    package static let hole = FileDescriptor.SeekOrigin(rawValue: 4)
    #else
    /// `SEEK_DATA`.
    package static let data = FileDescriptor.SeekOrigin.nextData

    /// `SEEK_HOLE`.
    package static let hole = FileDescriptor.SeekOrigin.nextHole
    #endif
}
