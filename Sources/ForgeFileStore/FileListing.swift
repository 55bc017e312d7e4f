/// How a tree is listed.
public struct FileListingOptions: Hashable, Sendable {
    /// Whether the directories below are listed too, each before its content.
    public var recursive: Bool

    /// Whether the files come in the order of their keys, compared component by component by bytes. Otherwise the order
    /// is that of the file system, which costs nothing.
    public var sorted: Bool

    /// Only files and directories whose keys begin with this text.
    public var prefix: String

    /// Only files and directories after this key in the sorted order, to continue an earlier listing; it need not
    /// exist. Implies ``sorted``.
    public var after: String?

    /// Creates options with default values.
    public init(recursive: Bool = true, sorted: Bool = false, prefix: String = "", after: String? = nil) {
        self.recursive = recursive
        self.sorted = sorted
        self.prefix = prefix
        self.after = after
    }
}

/// The files and directories of a store as a sequence, read in pages as the loop asks for them.
public struct FileListing: AsyncSequence, Sendable {
    /// Returns the next page of a listing; nil after the last.
    public typealias NextPage = () async throws -> [StoredFile]?

    private let begin: @Sendable () -> NextPage

    /// Creates a listing.
    ///
    /// - Parameter begin: Starts a listing; called by every iteration.
    public init(_ begin: @escaping @Sendable () -> NextPage) {
        self.begin = begin
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextPage: NextPage
        private var page: [StoredFile] = []
        private var position = 0

        fileprivate init(nextPage: @escaping NextPage) {
            self.nextPage = nextPage
        }

        public mutating func next() async throws -> StoredFile? {
            while position == page.count {
                guard let next = try await nextPage() else { return nil }
                page = next
                position = 0
            }
            defer { position += 1 }
            return page[position]
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(nextPage: begin())
    }
}
