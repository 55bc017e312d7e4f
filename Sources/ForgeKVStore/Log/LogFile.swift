import ForgeFileSystem

extension POSIXPath {
    /// The name of the log in the directory of a store.
    static let logName: POSIXPath = "log"
}

/// The open file of a log, closed with its last reference.
final class LogFile: Sendable {
    let fileSystem: any POSIXFileSystem
    let descriptor: Descriptor
    let header: LogHeader

    init(_ descriptor: Descriptor, header: LogHeader, on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
        self.descriptor = descriptor
        self.header = header
    }

    deinit {
        // Everything that had to be durable was flushed before.
        do { try fileSystem.close(descriptor) } catch _ {}
    }
}
