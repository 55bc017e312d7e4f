public import ForgeFileSystem
public import Foundation

extension MirroredKVStore {
    /// The limits of a mirror.
    public struct Configuration: Sendable {
        /// The behaviour of the synchronous writes of ``KVStoring``.
        public enum SynchronousWrites: Hashable, Sendable {
            /// They throw `.readOnly`.
            case refused

            /// They block the calling thread until the mirror shows the write, at most for a time; after that they
            /// throw `.unknownOutcome`.
            ///
            /// Call them only from threads that you have created, not from tasks or Dispatch queues: if every thread of
            /// the pool waits, no thread remains to carry out the writes, and each call times out.
            case blocking(upTo: Duration)
        }

        /// A directory for a copy of the mirror, and its file system.
        public struct Copy: Sendable {
            let path: POSIXPath
            let fileSystem: any POSIXFileSystem

            /// A copy in a directory of its own, which is created with mode 0700.
            public init(at path: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem()) {
                self.path = path
                self.fileSystem = fileSystem
            }

            /// A copy in a directory of its own, which is created with mode 0700.
            ///
            /// - Throws: ``KVStoreError`` if the URL is not that of a file.
            public init(at url: URL) throws {
                do throws(FileSystemError) {
                    self.init(at: try POSIXPath(url))
                } catch {
                    throw KVStoreError(error, .open, store: url.absoluteString)
                }
            }
        }

        /// The behaviour of the synchronous writes: `.refused` by default.
        public var synchronousWrites = SynchronousWrites.refused

        /// How long a write of ``MirroredKVStore/remote-swift.property`` waits for the mirror, after it was applied: 10
        /// seconds.
        public var visibilityLimit = Duration.seconds(10)

        /// The interval between two checks of the remote store's revision: a minute, shortened at random by up to a
        /// tenth. A stream of changes that does not begin in this time is opened again.
        ///
        /// A store without revisions is listed again after each silence of this length.
        public var revisionCheckInterval = Duration.seconds(60)

        /// How long a stream of changes may be silent while the remote store has a later revision, before it is opened
        /// again: a second.
        ///
        /// `wait` asks for that revision after a silence of a quarter of it.
        public var patience = Duration.seconds(1)

        /// The longest random wait before a list, so that the processes of a fleet do not list at once: two seconds.
        /// A list with which a mirror starts is not delayed.
        public var listJitter = Duration.seconds(2)

        /// The longest random wait after a failure, to which the limit doubles from 50 milliseconds: 10 seconds.
        public var longestBackoff = Duration.seconds(10)

        /// The number of values in the first page of a list, 500 by default. The next pages have more, up to about 4
        /// MiB; after a page was too large or late, all pages have fewer.
        public var pageSize = 500

        /// The place of a copy on disk, from which a process starts with the last known values while the remote store
        /// cannot be reached; nil for none.
        ///
        /// The copy is a ``FileKVStore`` for one mirror. It is written asynchronously: a slow device gets several
        /// changes in one write, and ``MirroredKVStore/close()`` writes the rest. After a crash, the copy contains one
        /// complete state that the mirror has had, with its revision; after a power cut, perhaps an older one.
        public var copy: Copy?

        /// Creates a configuration with default values.
        public init() {}
    }
}
