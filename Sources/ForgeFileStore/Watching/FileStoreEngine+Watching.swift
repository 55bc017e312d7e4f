/// The changes of files.
extension FileStoreEngine {
    func changes(in directory: String) -> FileChanges {
        FileChanges { [self] in
            let owner = FileWatch.Owner(FileWatch(self, directory))
            return { try await owner.watch.next() }
        }
    }
}
