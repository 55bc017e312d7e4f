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

        /// The longest silence of the stream of changes, after which it is checked: a minute. Each wait is up to a
        /// tenth shorter, at random.
        ///
        /// A store without revisions is listed again after each silence.
        public var silenceLimit = Duration.seconds(60)

        /// How long `wait` trusts a stream of changes that delivers nothing, before the mirror lists again: a second.
        public var patience = Duration.seconds(1)

        /// The longest random wait before a list that is not the first, so that the processes of a fleet do not list at
        /// once: two seconds. A list that `wait` needs is not delayed.
        public var listJitter = Duration.seconds(2)

        /// The longest random wait after a failure, to which the limit doubles from 50 milliseconds: 10 seconds.
        public var longestBackoff = Duration.seconds(10)

        /// The number of values in a page of a list; smaller after a list has failed. 500 by default.
        public var pageSize = 500

        /// The place of a copy on disk, from which a process starts with the last known values while the remote store
        /// cannot be reached; nil for none.
        ///
        /// The copy is a ``FileKVStore`` for one process. A crash leaves it at a state that the mirror has had, with
        /// its revision; a power cut, perhaps at an earlier one.
        public var copy: Copy?

        /// Creates a configuration with default values.
        public init() {}
    }
}
