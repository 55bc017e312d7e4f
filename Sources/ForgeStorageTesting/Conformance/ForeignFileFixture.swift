public import ForgeFileSystem

/// A store on disk and the directory that it shares with files of other programs.
public struct ForeignFileFixture: Sendable {
    /// One call of the store, made on a store that may have been opened for it.
    public struct Call: Sendable, CustomStringConvertible {
        /// The name of the call, as violations show it.
        public let description: String

        let run: @Sendable () async throws -> Void

        /// A call that may fail: a refusal is as good as success, as long as nothing foreign changes.
        public init(_ description: String, _ run: @escaping @Sendable () async throws -> Void) {
            self.description = description
            self.run = run
        }
    }

    /// Where the store is.
    public var fileSystem: any POSIXFileSystem

    /// The directory of the store.
    public var root: POSIXPath

    /// The directories, relative to the root, that other programs put files into; the first call creates them.
    public var directories: [POSIXPath]

    /// The names of files that the store writes in place, and refuses if they have a second hard link.
    public var writtenInPlace: Set<POSIXPath>

    /// All calls of the store, in order: the first one creates the directories, the last ones close and reopen the
    /// store.
    public var calls: [Call]

    /// Creates a fixture.
    public init(
        _ fileSystem: any POSIXFileSystem, root: POSIXPath, directories: [POSIXPath] = ["."],
        writtenInPlace: Set<POSIXPath> = [], calls: [Call]
    ) {
        self.fileSystem = fileSystem
        self.root = root
        self.directories = directories
        self.writtenInPlace = writtenInPlace
        self.calls = calls
    }
}
