/// The events of watched directories, in the same cases as those of `inotify(7)`.
extension InMemoryFileSystem.State {
    /// Reports a change of a name to all watches.
    @inline(never) func notify(_ kind: InMemoryWatch.Kind, _ name: FileSystemEffect.Place) {
        for watch in watches {
            watch.add(kind, name.name, in: name.directory, limit: options.maximumQueuedEventCount)
        }
    }

    /// Ends the watches of a removed directory.
    @inline(never) func endWatches(of index: Int) {
        for watch in watches { watch.forget(inodes[index].number) }
    }

    /// Reports that a file which was open for writing was closed, under all its names in watched directories.
    ///
    /// Linux reports it only under the name by which the file was opened.
    ///
    /// The search begins with the latest names, as a file was probably created when it was written.
    ///
    /// - Complexity: O(*n*) in the entries of the watched directories, O(1) for a name that is one of the latest.
    @inline(never) func notifyWritten(_ index: Int) {
        var rest = inodes[index].nameCount
        for directory in names.indices.reversed() where isDirectory(directory) && inodes[directory].nameCount > 0 {
            let number = inodes[directory].number
            guard watches.contains(where: { $0.isWatched(number) }) else { continue }
            var position = names[directory].entries.count
            while position > 0, rest > 0 {
                position -= 1
                guard Int(names[directory].entries[position].inode) == index else { continue }
                notify(.written, place(at: position, in: directory))
                rest -= 1
            }
            if rest == 0 { return }
        }
    }
}
