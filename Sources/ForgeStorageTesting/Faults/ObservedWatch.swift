import ForgeFileSystem

/// Passes the watching of each directory to a closure, which forwards it by calling its second argument.
struct ObservedWatch: DirectoryWatching {
    typealias Observer =
        @Sendable (Descriptor, () throws(FileSystemError) -> Int) throws(FileSystemError) -> Int

    private let base: any DirectoryWatching
    private let observe: Observer

    init(_ base: any DirectoryWatching, _ observe: @escaping Observer) {
        self.base = base
        self.observe = observe
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        try observe(directory) { () throws(FileSystemError) in
            try base.watch(directory, includesWrites: includesWrites)
        }
    }

    func unwatch(_ number: Int) { base.unwatch(number) }

    func cancel() { base.cancel() }
}
