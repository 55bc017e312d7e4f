import Synchronization
import SystemPackage

extension InMemoryFileSystem {
    /// The signal of an open file, which reaches the observers in all processes of the tree.
    public func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        let inode = try perform(.watch) { (state) throws(Errno) in
            state.inodes[state.openFiles[try state.openFile(descriptor)].inode].number
        }
        return InMemorySignal(tree: tree, process: process, inode: inode)
    }

    /// An observation of a file.
    struct SignalObserver: Sendable {
        var process: Int
        var inode: UInt64
        /// Of the observation. A reference that was loaded under the lock of the tree could be the last one, and its end
        /// acquires that lock.
        var id: ObjectIdentifier
        weak var observation: QueuedObservation?
    }
}

/// The signal of a file of an ``InMemoryFileSystem``.
private struct InMemorySignal: FileSignal {
    let tree: InMemoryFileSystem.Tree
    let process: Int
    /// The number of the inode, which no other file gets.
    let inode: UInt64

    func send() {
        // Released outside the lock of the tree, which the end of an observation acquires.
        let observations = tree.state.withLock { state in
            state.signalObservers.filter { $0.inode == inode }.compactMap(\.observation)
        }
        for observation in observations { observation.signal() }
    }

    func observe(_ body: @escaping @Sendable () -> Duration?) -> any FileSignalObservation {
        let observation = QueuedObservation(body) { [tree] id in
            tree.state.withLock { $0.signalObservers.removeAll { $0.id == id } }
        }
        let observer = InMemoryFileSystem.SignalObserver(
            process: process, inode: inode, id: ObjectIdentifier(observation), observation: observation)
        tree.state.withLock { $0.signalObservers.append(observer) }
        observation.signal()
        return observation
    }
}
